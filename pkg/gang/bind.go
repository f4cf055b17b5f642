package gang

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// A BindIntent is a pod in the bind queue, with the
// assignments that have to be valid when its bind is sent.
type BindIntent struct {
	Pod types.UID
	// Assignments is the pod's own assignment if its group has
	// started. Otherwise it is all reserved assignments of the group,
	// because the group starts with all of them or loses all of them.
	Assignments []Assignment
	// started is true if the group had started when the intent was made.
	started bool
}

// An Assignment is a pod with the node that it is to be bound to.
type Assignment struct {
	Pod  *corev1.Pod
	Node string
}

// PrepareBind returns the assignments that have to be valid when the bind
// of a pod is sent. It returns none if the pod has no reserved assignment.
func (g Assignments) PrepareBind(uid types.UID) BindIntent {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || !m.isReserved() || !m.isWaiting() {
		return BindIntent{Pod: uid}
	}
	d, members := BindIntent{Pod: uid, started: m.group.started}, []*member{m}
	if !d.started {
		members = m.group.ordered((*member).isReserved)
	}
	d.Assignments = make([]Assignment, len(members))
	for i, o := range members {
		d.Assignments[i] = Assignment{Pod: o.pod, Node: o.assignment.slot.Node}
	}
	return d
}

// CommitBind decides whether the bind of a pod may be sent. The argument whyInvalid says
// why one of the assignments of d is not valid any more. It is empty if all are valid.
//
// If the result why is empty, the bind may be sent. The first bind starts the
// group. Otherwise why is the reason, and the Output names the assignments that
// are lost: all of the group if it has not started, only the pod's own if it has.
//
// If d is out of date, CommitBind does nothing, and ok is false: since d was made, the group
// has started or has ceased to be started, or the pod had no assignment when d was made.
func (g Assignments) CommitBind(d BindIntent, whyInvalid string, now time.Time) (why string, out Output, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	why, ok = g.commitBind(d, whyInvalid, now)
	return why, g.output(), ok
}

// commitBind is CommitBind without the lock and the Output.
func (g Assignments) commitBind(d BindIntent, whyInvalid string, now time.Time) (why string, ok bool) {
	m := g.members[d.Pod]
	if m == nil || !m.isReserved() || !m.isWaiting() {
		return m.whyNotReserved(), true
	}
	s := m.group
	switch {
	case d.started != s.started || len(d.Assignments) == 0:
		return "", false
	case whyInvalid != "":
		g.refuseWithBackoff(m, reason.NodeRefused, whyInvalid, now)
		if s.started {
			g.revoke(m, whyInvalid)
		} else {
			g.revokeAll(s, whyInvalid)
		}
		g.recompute(s)
		return whyInvalid, true
	case !s.started && s.podGroup != nil && s.isUnrecorded():
		why := "the seats of the pods that are expected are not recorded"
		g.revokeAll(s, why)
		g.recompute(s)
		return why, true
	case !s.started && s.number(reservedMembers) < s.minimum():
		why := fmt.Sprintf("%d pods of the group are reserved, but it starts with %d", s.number(reservedMembers), s.minimum())
		g.revokeAll(s, why)
		g.recompute(s)
		return why, true
	}
	m.assignment.binding = true
	g.start(s)
	return "", true
}

// start records that a bind of a group was sent. The first one starts the group.
func (g Assignments) start(s *groupState) {
	if !s.startReported && !s.started {
		reserved := s.ordered((*member).isReserved)
		g.out.transition(Transition{Type: Started, Key: s.key, Pods: len(reserved), CompleteSince: s.completeSince, Job: reserved[0].assignment.job})
		s.startReported = true
	}
	if !s.started {
		s.started = true
		// The group has reached this minimum. A minimum that is raised
		// from now on counts only once the group has reached it.
		s.peakMinimum = s.minimum()
		g.updatePositions(s)
	}
	s.failures, s.hadLongBackoff = 0, false
}

// UndoBind records that the API server throttled a bind without looking at
// it. The pod is in the bind queue again. If no bind of the group was made or
// may have been made, and no other is in flight, the group has not started.
func (g Assignments) UndoBind(uid types.UID) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.assignment == nil {
		return g.output()
	}
	m.assignment.binding = false
	s := m.group
	if !s.mayBeBound && s.first(func(o *member) bool { return o.assignment != nil && o.assignment.binding }) == nil {
		s.started, s.peakMinimum = false, 0
		g.recompute(s)
	}
	return g.output()
}

// ObserveBind records that a pod was bound.
func (g Assignments) ObserveBind(uid types.UID) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil && m.assignment != nil {
		m.assignment.bound, m.assignment.binding = true, false
		m.group.changed(m)
		g.recompute(m.group)
	}
	return g.output()
}

// A ReservedPod is a pod whose assignment a scheduling cycle has reserved.
type ReservedPod struct {
	Pod *corev1.Pod
	// Node is the assigned node.
	Node string
	// Rank is the pod's place in the queue.
	Rank Rank
	// GroupIncomplete is true from the group's first bind until the group is
	// reported as placed, and again while too few members are on nodes.
	GroupIncomplete bool
}

// ReservedPod returns a pod and its reserved assignment. It returns
// false if the pod has none, or if the pod no longer waits for a node.
func (g Assignments) ReservedPod(uid types.UID) (ReservedPod, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || !m.isReserved() || !m.isWaiting() {
		return ReservedPod{}, false
	}
	return ReservedPod{Pod: m.pod, Node: m.assignment.slot.Node, Rank: m.rank(), GroupIncomplete: m.group.started && !m.group.isFullyPlaced()}, true
}

// ReportAgain lists a group in Placed once more if all its required members
// are on nodes. It is for a caller that has reported something else, because
// the last of these members may have come to its node just before that.
func (g Assignments) ReportAgain(key types.NamespacedName) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && s.isFullyPlaced() {
		g.out.reportPlaced(key)
	}
	return g.output()
}
