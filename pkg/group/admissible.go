package group

import (
	"maps"
	"slices"
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

// returnStep is the least time between two groups of a namespace that ask again since the time is
// over that they were told: each of them may be refused once more, and costs a scheduling cycle.
const returnStep = 50 * time.Millisecond

// Due lists the groups with a refusal that has run out, and forgets it. Next is
// when the next one does; zero is never. Of the groups of a namespace that were told when to ask
// again one is due at a time, in the order of the queue.
func (g *Groups) Due(now time.Time) (keys []types.NamespacedName, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	due := map[types.NamespacedName]bool{}
	told := map[string][]*refusal{} // by namespace, what said when to ask again and has run out
	for key, s := range g.refused {
		for _, r := range s.refusals() {
			switch {
			case r.standsAt(now):
			case r.After > 0:
				told[key.Namespace] = append(told[key.Namespace], r)
			default:
				due[key] = true
			}
		}
	}
	for namespace, of := range told {
		if key, ok := g.returns(namespace, of, now); ok {
			due[key] = true
		}
	}
	maps.DeleteFunc(g.returned, func(_ string, at time.Time) bool { return !now.Before(at.Add(returnStep)) })
	for key, s := range g.refused {
		if due[key] {
			s.runOut(now)
			keys = append(keys, key)
		}
		for _, r := range s.refusals() {
			if !r.retryAt.IsZero() && (next.IsZero() || r.retryAt.Before(next)) {
				next = r.retryAt
			}
		}
	}
	if len(keys) > 0 {
		keys = append(keys, g.lackingOnes(keys)...)
	}
	return keys, next
}

// returns lets one of the refusals run out that said when to ask again, the first by rank, if the
// one before it in the namespace did so long enough ago. The others wait a step more.
func (g *Groups) returns(namespace string, of []*refusal, now time.Time) (key types.NamespacedName, ok bool) {
	last, lately := g.returned[namespace]
	at := last.Add(returnStep)
	if ok = !lately || !now.Before(at); ok {
		first := slices.MinFunc(of, func(a, b *refusal) int {
			if a.rank.Less(b.rank) {
				return -1
			}
			return 1
		})
		key, at = first.rank.Key, now.Add(returnStep)
		g.returned[namespace] = now
		of = slices.DeleteFunc(of, func(r *refusal) bool { return r == first })
	}
	for _, r := range of {
		r.retryAt = at
	}
	return key, ok
}

// refusals lists those that are remembered of a group and of its members.
func (s *state) refusals() []*refusal {
	var all []*refusal
	if s.refusal != nil {
		all = append(all, s.refusal)
	}
	for _, m := range s.members {
		if m.refusal != nil {
			all = append(all, m.refusal)
		}
	}
	return all
}

// runOut forgets what does not stand any more.
func (s *state) runOut(now time.Time) {
	if s.refusal != nil && !s.refusal.standsAt(now) {
		s.refusal = nil
	}
	for _, m := range s.members {
		if m.refusal != nil && !m.refusal.standsAt(now) {
			m.refusal = nil
		}
	}
}
