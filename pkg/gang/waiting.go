package gang

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/reason"
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
// pod without an assignment or no pod yet, and were not refused. A group that waits for its turn in a queue of jobs may
// have been refused before.
func (g Lister) WaitingGroups() []WaitingGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []WaitingGroup
	for _, s := range g.unassignedGroups {
		if s.started {
			continue
		}
		why, msg := g.whyNotYet(s)
		if s.refusal != nil && !isAtRest(s) && why != reason.Queued {
			continue
		}
		w := WaitingGroup{Key: s.key, Reason: why, Message: msg}
		if m := s.members[s.chooseRepresentative()]; m != nil {
			w.Pod = m.pod
		}
		all = append(all, w)
	}
	return all
}

// WaitingSiblings are the pods of a group that wait, for the same reason, while
// another pod, the representative, goes through the queue for the group.
type WaitingSiblings struct {
	Key types.NamespacedName
	// Reason and Message say why the pods wait.
	Reason, Message string
	// Pods are the siblings, in the order of the group. There are none if Told was called, and nothing
	// has changed since.
	Pods []*corev1.Pod

	rank Rank
	look *siblingLook
}

// A waitingText is why siblings wait.
type waitingText struct{ reason, message string }

// A siblingLook is what WaitingSiblings last returned for siblings with the same text. told is true once
// Told was called.
type siblingLook struct{ told bool }

// WaitingSiblings returns, for each group that cannot be placed now, the waiting pods other than its
// representative. If the group has started, these are its late members that were refused. The
// siblings come in the order of the queue.
func (g Lister) WaitingSiblings(now time.Time) []WaitingSiblings {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []WaitingSiblings
	for _, s := range g.unassignedGroups {
		if s.started {
			all = appendRefusedLate(all, s)
			continue
		}
		why, msg := g.whyNotYet(s)
		if why == "" && s.refusal.isActive(now) {
			why, msg = s.refusal.Reason, s.refusal.Message
		}
		if why == "" {
			continue
		}
		w := siblingsWith(s, waitingText{why, msg})
		if !w.look.told {
			representative := s.members[s.chooseRepresentative()]
			if representative != nil {
				w.rank = representative.rank()
			}
			for _, m := range s.ordered(func(m *member) bool { return m != representative && m.isWaiting() && m.assignment == nil }) {
				w.Pods = append(w.Pods, m.pod)
			}
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b WaitingSiblings) int { return a.rank.Compare(b.rank) })
	return all
}

// appendRefusedLate appends the refused late members of a started group, by the texts of their refusals.
func appendRefusedLate(all []WaitingSiblings, s *groupState) []WaitingSiblings {
	begin := len(all)
	for _, m := range s.ordered((*member).wasRefused) {
		text := waitingText{m.lastRefusal.Reason, m.lastRefusal.Message}
		i := slices.IndexFunc(all[begin:], func(w WaitingSiblings) bool { return waitingText{w.Reason, w.Message} == text })
		if i < 0 {
			w := siblingsWith(s, text)
			w.rank = m.rank()
			all, i = append(all, w), len(all)-begin
		}
		if w := &all[begin+i]; !w.look.told {
			w.Pods = append(w.Pods, m.pod)
		}
	}
	return all
}

// siblingsWith returns the siblings of a group that wait for this reason, still without their pods.
func siblingsWith(s *groupState, text waitingText) WaitingSiblings {
	l := s.siblingLooks[text]
	if l == nil {
		if s.siblingLooks == nil {
			s.siblingLooks = map[waitingText]*siblingLook{}
		}
		l = &siblingLook{}
		s.siblingLooks[text] = l
	}
	return WaitingSiblings{Key: s.key, Reason: text.reason, Message: text.message, look: l}
}

// Told records that siblings have been told why they wait. It has no
// effect if a pod of the group has changed since WaitingSiblings returned them.
func (g Lister) Told(w WaitingSiblings) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.look.told = true
}
