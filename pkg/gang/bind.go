package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// A Departure is a pod that stands at the gate, with the seats that have to be good for its
// bind to be sent.
type BindIntent struct {
	Pod types.UID
	// Assignments are the pod's own, if its group has started, else all that are confirmed of its
	// group, which starts with them or gives them back.
	Assignments []Assignment
	started     bool
}

// A Seat is a pod with the node that it is to be bound to.
type Assignment struct {
	Pod  *corev1.Pod
	Node string
}

// PrepareBind says which seats have to be good for the bind of a pod to be sent. A pod without
// a confirmed seat has none.
func (g Assignments) PrepareBind(uid types.UID) BindIntent {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || !m.isReserved() || !m.isWaiting() {
		return BindIntent{Pod: uid}
	}
	d, seats := BindIntent{Pod: uid, started: m.group.started}, []*member{m}
	if !d.started {
		seats = m.group.ordered((*member).isReserved)
	}
	d.Assignments = make([]Assignment, len(seats))
	for i, o := range seats {
		d.Assignments[i] = Assignment{Pod: o.pod, Node: o.assignment.slot.Node}
	}
	return d
}

// CommitBind lets a pod that stands at the gate be bound, and says why not if it may not: then
// the seats that the Output names are lost. Closed says which of the departure's seats is not
// good any more, and why; empty is that all are. The first pod of a group that departs starts
// it: up to then the group gives back all its seats, thereafter a pod its own. Ok is false,
// and nothing is done, if the group has started or lost its start since the departure was
// made, or if the pod had no seat then.
func (g Assignments) CommitBind(d BindIntent, closed string, now time.Time) (why string, out Output, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	why, ok = g.commitBind(d, closed, now)
	return why, g.output(), ok
}

func (g Assignments) commitBind(d BindIntent, closed string, now time.Time) (why string, ok bool) {
	m := g.members[d.Pod]
	if m == nil || !m.isReserved() || !m.isWaiting() {
		return "the group gave its nodes back", true
	}
	s := m.group
	switch {
	case d.started != s.started || len(d.Assignments) == 0:
		return "", false
	case closed != "":
		g.refuseWithBackoff(m, reason.NodeRefused, closed, now)
		if s.started {
			g.revoke(m, closed)
		} else {
			g.revokeAll(s, closed)
		}
		g.recompute(s)
		return closed, true
	case !s.started && s.count((*member).isReserved) < s.minimum():
		const why = "fewer members are reserved than the group starts with"
		g.revokeAll(s, why)
		g.recompute(s)
		return why, true
	}
	m.assignment.binding = true
	g.start(s)
	return "", true
}

// start takes note that a bind of a group was sent.
func (g Assignments) start(s *groupState) {
	if !s.startReported && !s.started {
		reserved := s.ordered((*member).isReserved)
		g.out.transition(Transition{Type: Started, Key: s.key, Pods: len(reserved), CompleteSince: s.completeSince, Job: reserved[0].assignment.job})
		s.startReported = true
	}
	if !s.started {
		s.started = true
		// It comes up to its minimum with these. One that is raised from now on is to grow.
		s.peakMinimum = s.minimum()
		g.updatePositions(s)
	}
	s.failures, s.hadLongBackoff = 0, false
}

// UndoBind takes note that the API server did not look at a bind that Depart let go, and
// that the pod stands at the gate again. A group of which no bind was taken, or may have
// been, and no other is in flight has not started.
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

// ObserveBind takes note that a pod was bound.
func (g Assignments) ObserveBind(uid types.UID) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil && m.assignment != nil {
		m.assignment.bound, m.assignment.binding = true, false
		g.recompute(m.group)
	}
	return g.output()
}

// A Reserved pod has a seat that a scheduling cycle has confirmed.
type ReservedPod struct {
	Pod *corev1.Pod
	// Node is the seat's, and Rank the pod's place in the queue.
	Node string
	Rank Rank
	// Starting says that binds of its group were sent, and that it has not been whole since.
	Starting bool
}

// ReservedPod returns a pod with its confirmed seat; false if it has none or is on its way
// out.
func (g Assignments) ReservedPod(uid types.UID) (ReservedPod, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || !m.isReserved() || !m.isWaiting() {
		return ReservedPod{}, false
	}
	return ReservedPod{Pod: m.pod, Node: m.assignment.slot.Node, Rank: m.rank(), Starting: m.group.started && !m.group.isPlaced()}, true
}

// ReportAgain has Placed tell once more of a group that is whole: something else may have been
// said of it in the moment before it was.
func (g Assignments) ReportAgain(key types.NamespacedName) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && s.isPlaced() {
		g.out.reportPlaced(key)
	}
	return g.output()
}
