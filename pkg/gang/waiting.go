package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WaitingGroup is a group, or a lone pod, that could not ask for anything yet.
type WaitingGroup struct {
	Key types.NamespacedName
	// Reason and Message say what it lacks; both are empty if it may ask.
	Reason  string
	Message string
	// Pod is one of its pods; nil if it has none.
	Pod *corev1.Pod
}

// WaitingGroups lists the groups of which no member has a seat, and that were not
// refused.
func (g Lister) WaitingGroups() []WaitingGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []WaitingGroup
	for _, s := range g.unassignedGroups {
		if s.started || s.refusal != nil {
			continue
		}
		why, msg := g.whyGathering(s)
		w := WaitingGroup{Key: s.key, Reason: why, Message: msg}
		if m := s.members[s.chooseRepresentative()]; m != nil {
			w.Pod = m.pod
		}
		all = append(all, w)
	}
	return all
}

// WaitingSibling is a pod that waits beside the one that asks for its group.
type WaitingSibling struct {
	Key types.NamespacedName
	Pod *corev1.Pod
	// Reason and Message say why the group waits.
	Reason, Message string
}

// WaitingSiblings lists them, of groups that have not started and cannot ask now.
func (g Lister) WaitingSiblings(now time.Time) []WaitingSibling {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []WaitingSibling
	for _, s := range g.unassignedGroups {
		if s.started {
			continue
		}
		why, msg := g.whyGathering(s)
		if why == "" && s.refusal.isActive(now) {
			why, msg = s.refusal.Reason, s.refusal.Message
		}
		if why == "" {
			continue
		}
		asks := s.chooseRepresentative()
		for uid, m := range s.members {
			if uid != asks && m.isWaiting() && m.assignment == nil {
				all = append(all, WaitingSibling{Key: s.key, Pod: m.pod, Reason: why, Message: msg})
			}
		}
	}
	return all
}
