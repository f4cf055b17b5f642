package group

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// unseat takes a member's seat away: alone in a group that has started or can start
// without it, and else with all others, for then none of them may start.
func (g *Groups) unseat(m *member, why string) Effects {
	if m.seat == nil {
		return Effects{}
	}
	if !m.group.started && !m.group.spares(m) {
		return g.unseatAll(m.group, why)
	}
	e := Effects{Reason: why}
	if m.seat.reserved && !m.seat.bound {
		e.Reject = append(e.Reject, m.pod.UID)
	}
	if !m.holds() {
		// A seat that the API shows is the inventory's to give back.
		e.release(m.seat.job, string(m.pod.UID))
		g.step(Step{Kind: GaveBack, Key: m.group.key, Job: m.seat.job, Pods: 1, Reason: why})
	}
	m.seat = nil
	return e
}

// spares says whether enough members are reserved for the group to start without one.
func (s *state) spares(m *member) bool {
	return s.permitted && s.count(func(o *member) bool { return o != m && o.reserved() }) >= s.minimum()
}

func (g *Groups) unseatAll(s *state, why string) Effects {
	e := Effects{Reason: why}
	s.permitted, s.startTold = false, false
	keys := map[match.JobID][]string{}
	for _, m := range s.ordered(func(m *member) bool { return m.seat != nil && !m.holds() }) {
		keys[m.seat.job] = append(keys[m.seat.job], string(m.pod.UID))
		if m.seat.reserved {
			e.Reject = append(e.Reject, m.pod.UID)
		}
		m.seat = nil
	}
	for job, keys := range keys {
		e.release(job, keys...)
		g.step(Step{Kind: GaveBack, Key: s.key, Job: job, Pods: len(keys), Reason: why})
	}
	return e
}

// Reserve confirms a member's seat. The error says why the pod may not take it.
func (g *Groups) Reserve(uid types.UID, node string) error {
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

// turn says whether all seats of the same match are reserved that come before the
// member's.
func (m *member) turn() bool {
	if m.seat.place == 0 {
		return true
	}
	for _, o := range m.group.members {
		if o.seat != nil && o.seat.job == m.seat.job && o.seat.place < m.seat.place && !o.seat.reserved {
			return false
		}
	}
	return true
}

// Next lists the siblings whose turn has come with the reservation of a member. It
// lists none where the seats have no order.
func (g *Groups) Next(uid types.UID) []*corev1.Pod {
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
func (g *Groups) Permit(uid types.UID) (ok bool, others []types.UID) {
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
func (g *Groups) Awaited(uid types.UID) (waits, mayBind bool) {
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
func (g *Groups) Unreserve(uid types.UID, now time.Time, why string) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.seat == nil {
		return Effects{}
	}
	if m.group.started {
		m.group.taken = m.group.taken || m.seat.leaving // nobody knows how its bind ended
		m.seat.reserved, m.seat.tried, m.seat.leaving = false, false, false
		return Effects{}
	}
	e := g.turnDown(m, ReasonNotReserved, why, now)
	e.add(g.unseatAll(m.group, why))
	g.settle(m.group)
	return e
}

// turnDown refuses a member, or with it its group, what it was given.
func (g *Groups) turnDown(m *member, reason, why string, now time.Time) Effects {
	g.refuse(m, Refusal{Reason: reason, Message: why, Until: Cluster(), Backoff: true, Found: reason == ReasonFiltered || reason == ReasonNotReserved}, now)
	return Effects{Refused: []Refused{{Pod: m.pod, Reason: reason, Message: why}}}
}

// The reasons that scheduling cycles of a group end with.
const (
	// ReasonNotReserved: a member could not be reserved or permitted in time.
	ReasonNotReserved = "NotReserved"
	// ReasonFiltered: the scheduler's own filters refused a matched node.
	ReasonFiltered = "NodeRefused"
)

// Fail takes note that the filters refused a seat. The refusal is remembered.
func (g *Groups) Fail(uid types.UID, now time.Time, why string) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.seat == nil || m.seat.reserved {
		return Effects{}
	}
	e := g.turnDown(m, ReasonFiltered, why, now)
	e.add(g.unseat(m, why))
	g.settle(m.group)
	return e
}

// ReservedOn lists the members of a pod's group that were reserved on a node.
func (g *Groups) ReservedOn(uid types.UID, node string) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	var uids []types.UID
	if m := g.members[uid]; m != nil {
		for _, o := range m.group.ordered((*member).reserved) {
			if o.seat.slot.Node == node {
				uids = append(uids, o.pod.UID)
			}
		}
	}
	return uids
}

// Abandon gives a seat back that a cycle lost, see Verdict. A seat of another
// job than the lost one stays: its cycle may be under way.
func (g *Groups) Abandon(uid types.UID, lost match.JobID, now time.Time) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.seat == nil || m.seat.job != lost || !m.seat.tried || m.seat.reserved {
		return Effects{}
	}
	const why = "a scheduling cycle ended with an error after the match"
	e := g.turnDown(m, ReasonNotReserved, why, now)
	e.add(g.unseat(m, why))
	// What else that match gave, to late members, may be lost with it.
	for _, o := range m.group.ordered(func(o *member) bool { return o.seat != nil && o.seat.job == lost && !o.seat.tried }) {
		e.add(g.unseat(o, why))
	}
	g.settle(m.group)
	return e
}

// TurnDown takes note that a pod cannot be asked for, which somebody else has
// found out. The refusal is remembered.
func (g *Groups) TurnDown(uid types.UID, now time.Time, reason, why string) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.seat != nil {
		return Effects{}
	}
	e := g.turnDown(m, reason, why, now)
	g.settle(m.group)
	return e
}

// Bound takes note that a pod was bound.
func (g *Groups) Bound(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil && m.seat != nil {
		m.seat.bound, m.seat.leaving = true, false
		g.settle(m.group)
	}
}

// A Placement is a group that has all its pods on nodes.
type Placement struct {
	Key types.NamespacedName
	// Nodes counts the pods by node.
	Nodes map[string]int
	// Whole says whether the nodes are the group's alone, and InVain which annotation came
	// too late for that.
	Whole  bool
	InVain string
	// Waiting counts the late members that were refused a node, and Reason and
	// Message say why the first of them was.
	Waiting         int
	Reason, Message string
}

// Placed lists the groups with a PodGroup of which, since the last call, more
// than before came to hold nodes, at least their minimum and with no bind
// outstanding, or late members were refused or no longer wait.
func (g *Groups) Placed() []Placement {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []Placement
	for key := range g.placed {
		s := g.groups[key]
		if s == nil || !s.started {
			continue
		}
		p := Placement{Key: key, Nodes: map[string]int{}, Whole: s.fenced == WholeYes, InVain: g.asksInVain(s)}
		for _, m := range s.members {
			if m.onNode() {
				p.Nodes[m.node()]++
			}
		}
		for _, m := range s.ordered((*member).refusedSeat) {
			if p.Waiting++; p.Waiting == 1 {
				p.Reason, p.Message = m.no.Reason, m.no.Message
			}
		}
		all = append(all, p)
	}
	clear(g.placed)
	return all
}

// Expire gives back the seats whose deadline passed before they were bound.
func (g *Groups) Expire(now time.Time) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	var e Effects
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
			e.add(g.turnDown(m, ReasonNotReserved, why, now))
			e.add(g.unseat(m, why))
		}
		if len(expired) > 0 {
			g.settle(s)
		}
	}
	return e
}
