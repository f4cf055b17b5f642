package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// A Departure is a pod that stands at the gate, with the seats that have to be good for its
// bind to be sent.
type Departure struct {
	Pod types.UID
	// Seats are the pod's own, if its group has started, else all that are confirmed of its
	// group, which starts with them or gives them back.
	Seats   []Seat
	started bool
}

// A Seat is a pod with the node that it is to be bound to.
type Seat struct {
	Pod  *corev1.Pod
	Node string
}

// Departing says which seats have to be good for the bind of a pod to be sent. A pod without
// a confirmed seat has none.
func (g Seats) Departing(uid types.UID) Departure {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || !m.reserved() || !m.waits() {
		return Departure{Pod: uid}
	}
	d, seats := Departure{Pod: uid, started: m.group.started}, []*member{m}
	if !d.started {
		seats = m.group.ordered((*member).reserved)
	}
	d.Seats = make([]Seat, len(seats))
	for i, o := range seats {
		d.Seats[i] = Seat{Pod: o.pod, Node: o.seat.slot.Node}
	}
	return d
}

// Depart lets a pod that stands at the gate be bound, and says why not if it may not: then
// the seats that the Output names are lost. Closed says which of the departure's seats is not
// good any more, and why; empty is that all are. The first pod of a group that departs starts
// it: up to then the group gives back all its seats, thereafter a pod its own. Ok is false,
// and nothing is done, if the group has started or lost its start since the departure was
// made, or if the pod had no seat then.
func (g Seats) Depart(d Departure, closed string, now time.Time) (why string, out Output, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	why, ok = g.depart(d, closed, now)
	return why, g.output(), ok
}

func (g Seats) depart(d Departure, closed string, now time.Time) (why string, ok bool) {
	m := g.members[d.Pod]
	if m == nil || !m.reserved() || !m.waits() {
		return "the group gave its nodes back", true
	}
	s := m.group
	switch {
	case d.started != s.started || len(d.Seats) == 0:
		return "", false
	case closed != "":
		g.turnDown(m, reason.NodeRefused, closed, now)
		if s.started {
			g.unseat(m, closed)
		} else {
			g.unseatAll(s, closed)
		}
		g.settle(s)
		return closed, true
	case !s.started && s.count((*member).reserved) < s.minimum():
		const why = "fewer members are reserved than the group starts with"
		g.unseatAll(s, why)
		g.settle(s)
		return why, true
	}
	m.seat.leaving = true
	g.start(s)
	return "", true
}

// start takes note that a bind of a group was sent.
func (g Seats) start(s *state) {
	if !s.startTold && !s.started {
		reserved := s.ordered((*member).reserved)
		g.out.transition(Transition{Kind: Started, Key: s.key, Pods: len(reserved), Complete: s.complete, Job: reserved[0].seat.job})
		s.startTold = true
	}
	if !s.started {
		s.started = true
		// It comes up to its minimum with these. One that is raised from now on is to grow.
		s.met = s.minimum()
		g.occupy(s)
	}
	s.failures, s.hard = 0, false
}

// Recall takes note that the API server did not look at a bind that Depart let go, and
// that the pod stands at the gate again. A group of which no bind was taken, or may have
// been, and no other is in flight has not started.
func (g Seats) Recall(uid types.UID) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.seat == nil {
		return g.output()
	}
	m.seat.leaving = false
	s := m.group
	if !s.taken && s.first(func(o *member) bool { return o.seat != nil && o.seat.leaving }) == nil {
		s.started, s.met = false, 0
		g.settle(s)
	}
	return g.output()
}

// Bound takes note that a pod was bound.
func (g Seats) Bound(uid types.UID) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil && m.seat != nil {
		m.seat.bound, m.seat.leaving = true, false
		g.settle(m.group)
	}
	return g.output()
}

// A Reserved pod has a seat that a scheduling cycle has confirmed.
type Reserved struct {
	Pod *corev1.Pod
	// Node is the seat's, and Rank the pod's place in the queue.
	Node string
	Rank Rank
	// Begun says that binds of its group were sent, and that it has not been whole since.
	Begun bool
}

// Reserved returns a pod with its confirmed seat; false if it has none or is on its way
// out.
func (g Seats) Reserved(uid types.UID) (Reserved, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || !m.reserved() || !m.waits() {
		return Reserved{}, false
	}
	return Reserved{Pod: m.pod, Node: m.seat.slot.Node, Rank: m.rank(), Begun: m.group.started && !m.group.whole()}, true
}

// Retell has Placed tell once more of a group that is whole: something else may have been
// said of it in the moment before it was.
func (g Seats) Retell(key types.NamespacedName) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && s.whole() {
		g.out.place(key)
	}
	return g.output()
}
