package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Waiting is a group, or a lone pod, that could not ask for anything yet.
type Waiting struct {
	Key types.NamespacedName
	// Reason and Message say what it lacks; both are empty if it may ask.
	Reason  string
	Message string
	// Pod is one of its pods; nil if it has none.
	Pod *corev1.Pod
}

// Waiting lists the groups of which no member has a seat, and that were not
// refused.
func (g Lister) Waiting() []Waiting {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []Waiting
	for _, s := range g.unseated {
		if s.started || s.refusal != nil {
			continue
		}
		why, msg := g.incomplete(s)
		w := Waiting{Key: s.key, Reason: why, Message: msg}
		if m := s.members[s.choose()]; m != nil {
			w.Pod = m.pod
		}
		all = append(all, w)
	}
	return all
}

// Beside is a pod that waits beside the one that asks for its group.
type Beside struct {
	Key types.NamespacedName
	Pod *corev1.Pod
	// Reason and Message say why the group waits.
	Reason, Message string
}

// Besides lists them, of groups that have not started and cannot ask now.
func (g Lister) Besides(now time.Time) []Beside {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []Beside
	for _, s := range g.unseated {
		if s.started {
			continue
		}
		why, msg := g.incomplete(s)
		if why == "" && s.refusal.standsAt(now) {
			why, msg = s.refusal.Reason, s.refusal.Message
		}
		if why == "" {
			continue
		}
		asks := s.choose()
		for uid, m := range s.members {
			if uid != asks && m.waits() && m.seat == nil {
				all = append(all, Beside{Key: s.key, Pod: m.pod, Reason: why, Message: msg})
			}
		}
	}
	return all
}
