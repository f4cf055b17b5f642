package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Admissible lists the pods that Admit lets pass and that have no seat yet: the
// representatives of groups that may ask for all their members, or for those that
// are late. The caller puts them into the queue.
func (g *Groups) Admissible(now time.Time) []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	var pods []*corev1.Pod
	for _, s := range g.unseated {
		pods = g.admissible(pods, s, now)
	}
	return pods
}

// AdmissibleOf lists those of some groups only.
func (g *Groups) AdmissibleOf(keys []types.NamespacedName, now time.Time) []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	var pods []*corev1.Pod
	for _, k := range keys {
		if s := g.unseated[k]; s != nil {
			pods = g.admissible(pods, s, now)
		}
	}
	return pods
}

func (g *Groups) admissible(pods []*corev1.Pod, s *state, now time.Time) []*corev1.Pod {
	asks := s.choose
	if s.started {
		asks = func() types.UID { return s.chooseLate(now) }
	}
	if m := s.members[asks()]; m != nil && m.seat == nil && g.admit(m, now).Pass {
		pods = append(pods, m.pod)
	}
	return pods
}

// Elapse forgets the refusals of a group that run out by themselves, as if they had. It
// says whether there were any.
func (g *Groups) Elapse(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, any := g.groups[key], false
	if s == nil {
		return false
	}
	if s.refusal != nil && s.refusal.Backoff {
		s.refusal, any = nil, true
	}
	for _, m := range s.members {
		if m.refusal != nil && m.refusal.Backoff {
			m.refusal, any = nil, true
		}
	}
	return any
}

// Due lists the groups with a refusal that has run out, and forgets it. Next is
// when the next one does; zero is never.
func (g *Groups) Due(now time.Time) (keys []types.NamespacedName, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	soonest := func(r *refusal) {
		if r != nil && !r.retryAt.IsZero() && (next.IsZero() || r.retryAt.Before(next)) {
			next = r.retryAt
		}
	}
	for _, s := range g.refused {
		due := false
		if s.refusal != nil && !s.refusal.standsAt(now) {
			s.refusal, due = nil, true
		}
		soonest(s.refusal)
		for _, m := range s.members {
			if m.refusal != nil && !m.refusal.standsAt(now) {
				m.refusal, due = nil, true
			}
			soonest(m.refusal)
		}
		if due {
			keys = append(keys, s.key)
		}
	}
	if len(keys) > 0 {
		keys = append(keys, g.lackingOnes(keys)...)
	}
	return keys, next
}
