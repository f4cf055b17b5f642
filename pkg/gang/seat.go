package gang

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// Seats follows the seats that a match gave: through scheduling cycles, which reserve them or fail,
// to the gate, and from there to the binds.
type Seats struct{ *core }

// Reserve confirms a member's seat. The error says why the pod may not take it.
func (g Seats) Reserve(uid types.UID, node string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.seat == nil {
		return fmt.Errorf("the group gave its nodes back")
	}
	if m.seat.slot.Node != node {
		return fmt.Errorf("node %q was chosen, %q is the one matched", node, m.seat.slot.Node)
	}
	m.seat.tried, m.seat.reserved = true, true
	return nil
}

// Next lists the siblings whose turn has come with the reservation of a member. It
// lists none where the seats have no order.
func (g Seats) Next(uid types.UID) []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.seat == nil || m.seat.place == 0 {
		return nil
	}
	var next *member
	for _, o := range m.group.members {
		if o.seat != nil && o.seat.job == m.seat.job && o.seat.place > m.seat.place && (next == nil || o.seat.place < next.seat.place) {
			next = o
		}
	}
	if next == nil || next.seat.reserved || !next.turn() {
		return nil
	}
	return []*corev1.Pod{next.pod}
}

// Permit says whether a reserved pod may be bound now. When it is the one that
// makes the group complete, the others that may go with it are listed.
func (g Seats) Permit(uid types.UID) (ok bool, others []types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.seat == nil {
		return false, nil
	}
	s := m.group
	if s.started || s.permitted {
		return true, nil
	}
	if s.count((*member).reserved) < s.need {
		return false, nil
	}
	s.permitted = true
	for _, o := range s.ordered((*member).reserved) {
		if o != m {
			others = append(others, o.pod.UID)
		}
	}
	return true, others
}

// Awaited says whether a pod that waits in Permit or at the gate still has a reason to, and
// whether it may go on from Permit.
func (g Seats) Awaited(uid types.UID) (waits, mayBind bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.seat == nil || !m.seat.reserved {
		return false, false
	}
	return true, m.group.started || m.group.permitted
}

// Unreserve takes note that a reserved pod will not be bound in this cycle.
// Before the group has started it loses all its seats; afterwards the pod keeps
// its own, to try again before anybody else can have it.
func (g Seats) Unreserve(uid types.UID, now time.Time, why string) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	switch {
	case m == nil || m.seat == nil:
	case m.group.started:
		m.group.taken = m.group.taken || m.seat.leaving // nobody knows how its bind ended
		m.seat.reserved, m.seat.tried, m.seat.leaving = false, false, false
	default:
		g.turnDown(m, reason.NotReserved, why, now)
		g.unseatAll(m.group, why)
		g.settle(m.group)
	}
	return g.output()
}

// Fail takes note that the filters refused a seat. The refusal is remembered.
func (g Seats) Fail(uid types.UID, now time.Time, why string) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil && m.seat != nil && !m.seat.reserved {
		g.turnDown(m, reason.NodeRefused, why, now)
		g.unseat(m, why)
		g.settle(m.group)
	}
	return g.output()
}

// Abandon gives a seat back that a cycle lost, see Verdict. A seat of another
// job than the lost one stays: its cycle may be under way.
func (g Seats) Abandon(uid types.UID, lost match.JobID, now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.seat == nil || m.seat.job != lost || !m.seat.tried || m.seat.reserved {
		return g.output()
	}
	const why = "a scheduling cycle ended with an error after the match"
	g.turnDown(m, reason.NotReserved, why, now)
	g.unseat(m, why)
	// What else that match gave, to late members, may be lost with it.
	for _, o := range m.group.ordered(func(o *member) bool { return o.seat != nil && o.seat.job == lost && !o.seat.tried }) {
		g.unseat(o, why)
	}
	g.settle(m.group)
	return g.output()
}

// Expire gives back the seats whose deadline passed before they were bound.
func (g Seats) Expire(now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.seated {
		expired := s.ordered(func(m *member) bool {
			return m.seat != nil && !m.holds() && !m.seat.bound && !m.seat.deadline.After(now)
		})
		for _, m := range expired {
			if m.seat == nil || s.started && m.seat.reserved || s.permitted && !s.started {
				// Taken with an earlier one, or its bind is under way, or the group stands at
				// the gate.
				continue
			}
			const why = "not all members could be reserved in time"
			g.turnDown(m, reason.NotReserved, why, now)
			g.unseat(m, why)
		}
		if len(expired) > 0 {
			g.settle(s)
		}
	}
	return g.output()
}

// Unclaimed lists the pods with a seat that no scheduling cycle took up yet. To
// put them into the queue again does no harm, where they may have been missed.
func (g Seats) Unclaimed() []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	var pods []*corev1.Pod
	for _, s := range g.seated {
		for _, m := range s.members {
			if m.seat != nil && !m.seat.tried && m.waits() {
				pods = append(pods, m.pod)
			}
		}
	}
	return pods
}
