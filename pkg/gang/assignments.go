package gang

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// Assignments follows the seats that a match gave: through scheduling cycles, which reserve them or fail,
// to the gate, and from there to the binds.
type Assignments struct{ *core }

// Reserve confirms a member's seat. The error says why the pod may not take it.
func (g Assignments) Reserve(uid types.UID, node string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.assignment == nil {
		return fmt.Errorf("the group gave its nodes back")
	}
	if m.assignment.slot.Node != node {
		return fmt.Errorf("node %q was chosen, %q is the one matched", node, m.assignment.slot.Node)
	}
	m.assignment.claimed, m.assignment.reserved = true, true
	return nil
}

// Next lists the siblings whose turn has come with the reservation of a member. It
// lists none where the seats have no order.
func (g Assignments) Next(uid types.UID) []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.assignment == nil || m.assignment.order == 0 {
		return nil
	}
	var next *member
	for _, o := range m.group.members {
		if o.assignment != nil && o.assignment.job == m.assignment.job && o.assignment.order > m.assignment.order && (next == nil || o.assignment.order < next.assignment.order) {
			next = o
		}
	}
	if next == nil || next.assignment.reserved || !next.isNext() {
		return nil
	}
	return []*corev1.Pod{next.pod}
}

// Permit says whether a reserved pod may be bound now. When it is the one that
// makes the group complete, the others that may go with it are listed.
func (g Assignments) Permit(uid types.UID) (ok bool, others []types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.assignment == nil {
		return false, nil
	}
	s := m.group
	if s.started || s.permitted {
		return true, nil
	}
	if s.count((*member).isReserved) < s.minReserved {
		return false, nil
	}
	s.permitted = true
	for _, o := range s.ordered((*member).isReserved) {
		if o != m {
			others = append(others, o.pod.UID)
		}
	}
	return true, others
}

// StillWaits says whether a pod that waits in Permit or at the gate still has a reason to, and
// whether it may go on from Permit.
func (g Assignments) StillWaits(uid types.UID) (waits, mayBind bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.assignment == nil || !m.assignment.reserved {
		return false, false
	}
	return true, m.group.started || m.group.permitted
}

// Unreserve takes note that a reserved pod will not be bound in this cycle.
// Before the group has started it loses all its seats; afterwards the pod keeps
// its own, to try again before anybody else can have it.
func (g Assignments) Unreserve(uid types.UID, now time.Time, why string) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	switch {
	case m == nil || m.assignment == nil:
	case m.group.started:
		m.group.mayBeBound = m.group.mayBeBound || m.assignment.binding // nobody knows how its bind ended
		m.assignment.reserved, m.assignment.claimed, m.assignment.binding = false, false, false
	default:
		g.refuseWithBackoff(m, reason.NotReserved, why, now)
		g.revokeAll(m.group, why)
		g.recompute(m.group)
	}
	return g.output()
}

// FilterRejected takes note that the filters refused a seat. The refusal is remembered.
func (g Assignments) FilterRejected(uid types.UID, now time.Time, why string) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil && m.assignment != nil && !m.assignment.reserved {
		g.refuseWithBackoff(m, reason.NodeRefused, why, now)
		g.revoke(m, why)
		g.recompute(m.group)
	}
	return g.output()
}

// RevokeLost gives a seat back that a cycle lost, see Verdict. A seat of another
// job than the lost one stays: its cycle may be under way.
func (g Assignments) RevokeLost(uid types.UID, lost match.JobID, now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.assignment == nil || m.assignment.job != lost || !m.assignment.claimed || m.assignment.reserved {
		return g.output()
	}
	const why = "a scheduling cycle ended with an error after the match"
	g.refuseWithBackoff(m, reason.NotReserved, why, now)
	g.revoke(m, why)
	// What else that match gave, to late members, may be lost with it.
	for _, o := range m.group.ordered(func(o *member) bool { return o.assignment != nil && o.assignment.job == lost && !o.assignment.claimed }) {
		g.revoke(o, why)
	}
	g.recompute(m.group)
	return g.output()
}

// RevokeExpired gives back the seats whose deadline passed before they were bound.
func (g Assignments) RevokeExpired(now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.tentativeGroups {
		expired := s.ordered(func(m *member) bool {
			return m.assignment != nil && !m.hasNode() && !m.assignment.bound && !m.assignment.deadline.After(now)
		})
		for _, m := range expired {
			if m.assignment == nil || s.started && m.assignment.reserved || s.permitted && !s.started {
				// Taken with an earlier one, or its bind is under way, or the group stands at
				// the gate.
				continue
			}
			const why = "not all members could be reserved in time"
			g.refuseWithBackoff(m, reason.NotReserved, why, now)
			g.revoke(m, why)
		}
		if len(expired) > 0 {
			g.recompute(s)
		}
	}
	return g.output()
}

// Unclaimed lists the pods with a seat that no scheduling cycle took up yet. To
// put them into the queue again does no harm, where they may have been missed.
func (g Assignments) Unclaimed() []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	var pods []*corev1.Pod
	for _, s := range g.tentativeGroups {
		for _, m := range s.members {
			if m.assignment != nil && !m.assignment.claimed && m.isWaiting() {
				pods = append(pods, m.pod)
			}
		}
	}
	return pods
}
