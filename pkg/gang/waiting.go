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
		if s.started || s.refusal != nil && !isAtRest(s) {
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

// WaitingSiblings are the pods of a group that wait while another
// pod, the representative, goes through the queue for the group.
type WaitingSiblings struct {
	Key types.NamespacedName
	// Reason and Message say why the group waits.
	Reason, Message string
	// Pods are the siblings. There are none if Told was called, and nothing has changed since.
	Pods []*corev1.Pod

	look *siblingLook
}

// A siblingLook is what WaitingSiblings last returned for a group. told is true once Told was called.
type siblingLook struct {
	reason, message string
	told            bool
}

// WaitingSiblings returns, for each group that has not started and
// cannot be placed now, the waiting pods other than its representative.
func (g Lister) WaitingSiblings(now time.Time) []WaitingSiblings {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []WaitingSiblings
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
		w := WaitingSiblings{Key: s.key, Reason: why, Message: msg}
		if l := s.siblingLook; l == nil || !l.told || l.reason != why || l.message != msg {
			s.siblingLook = &siblingLook{reason: why, message: msg}
			representative := s.chooseRepresentative()
			for uid, m := range s.members {
				if uid != representative && m.isWaiting() && m.assignment == nil {
					w.Pods = append(w.Pods, m.pod)
				}
			}
		}
		w.look = s.siblingLook
		all = append(all, w)
	}
	return all
}

// Told records that the siblings of a group have been told why the group waits. It has
// no effect if a pod of the group has changed since WaitingSiblings returned them.
func (g Lister) Told(w WaitingSiblings) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.look.told = true
}
