package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A WaitingGroup is a group, or a lone pod, that waits and was not refused.
type WaitingGroup struct {
	Key types.NamespacedName
	// Reason is what the group lacks. It is empty if the group may be placed.
	Reason string
	// Message explains the reason.
	Message string
	// Pod is the group's representative. It is nil if no pod waits.
	Pod *corev1.Pod
}

// WaitingGroups returns the groups that have not started, have a
// pod without an assignment or no pod yet, and were not refused.
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

// A WaitingSibling is a pod that waits while another pod,
// the representative, goes through the queue for its group.
type WaitingSibling struct {
	Key types.NamespacedName
	Pod *corev1.Pod
	// Reason and Message say why the group waits.
	Reason, Message string
}

// WaitingSiblings returns, for each group that has not started and
// cannot be placed now, the waiting pods other than its representative.
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
		representative := s.chooseRepresentative()
		for uid, m := range s.members {
			if uid != representative && m.isWaiting() && m.assignment == nil {
				all = append(all, WaitingSibling{Key: s.key, Pod: m.pod, Reason: why, Message: msg})
			}
		}
	}
	return all
}
