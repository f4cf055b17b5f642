package gang

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// Assignments is the role that follows assignments from the match to the bind: through
// the scheduling cycles, which reserve them or fail, and through the bind queue.
type Assignments struct{ *core }

// Reserve records that a scheduling cycle reserved the assignment of a pod. It returns an
// error, which says why, if the pod has no assignment, or if node is not the assigned one.
func (g Assignments) Reserve(uid types.UID, node string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.assignment == nil {
		return errors.New(m.whyNotReserved())
	}
	if m.assignment.slot.Node != node {
		return fmt.Errorf("the scheduler chose node %q, but the pod is assigned to node %q", node, m.assignment.slot.Node)
	}
	m.assignment.claimed, m.assignment.reserved = true, true
	m.group.changed(m)
	return nil
}

// Next returns the sibling that may take up its assignment because this pod is now
// reserved. It returns nil if there is none, or if the assignments have no order.
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

// Permit reports whether a reserved pod may go on from Permit to the
// bind queue. If this pod completes the minimum, Permit also returns
// the other reserved members: they wait in Permit, and may go on too.
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
	if s.number(reservedMembers) < s.minReserved {
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

// StillWaits reports whether a pod in Permit or in the bind queue still
// has a reserved assignment, and whether the pod may go on from Permit.
func (g Assignments) StillWaits(uid types.UID) (waits, mayBind bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.assignment == nil || !m.assignment.reserved {
		return false, false
	}
	return true, m.group.started || m.group.permitted
}

// Unreserve records that a pod will not be bound in this scheduling cycle. If the group
// has not started, it loses all its assignments. If the group has started, the pod
// keeps its assignment, so that it can try again before any other pod gets the node.
func (g Assignments) Unreserve(uid types.UID, now time.Time, why string) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	switch {
	case m == nil || m.assignment == nil:
	case m.group.started:
		m.group.mayBeBound = m.group.mayBeBound || m.assignment.binding // the outcome of its bind is not known
		m.assignment.reserved, m.assignment.claimed, m.assignment.binding = false, false, false
		m.group.changed(m)
	default:
		g.refuseWithBackoff(m, reason.NotReserved, why, now)
		g.revokeAll(m.group, why)
		g.recompute(m.group)
	}
	return g.output()
}

// FilterRejected records that a filter rejected the assigned node of a pod. The assignment
// is revoked, and the refusal is remembered. A reserved assignment is left alone.
func (g Assignments) FilterRejected(uid types.UID, now time.Time, why string) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil && m.assignment != nil && !m.assignment.reserved {
		g.refuseWithBackoff(m, reason.NodeRefused, why, now)
		if m.assignment.seat != nil {
			m.seatless = true
			g.noteGivenBack(m.group, 1, fmt.Sprintf("pod %s cannot take its seat: %s", m.pod.Name, why))
		}
		g.revoke(m, why)
		g.recompute(m.group)
	}
	return g.output()
}

// RevokeAbandoned revokes an assignment whose scheduling cycle has lost it; see Verdict.Abandoned. It does
// nothing if the pod has an assignment of another job by now, because a cycle may be using it.
func (g Assignments) RevokeAbandoned(uid types.UID, job match.JobID, now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.assignment == nil || m.assignment.job != job || !m.assignment.claimed || m.assignment.reserved {
		return g.output()
	}
	why := m.whyAbandoned()
	g.refuseWithBackoff(m, reason.NotReserved, why, now)
	g.revoke(m, why)
	// The pods of the match's other unclaimed assignments may never have entered the queue.
	for _, o := range m.group.ordered(func(o *member) bool { return o.assignment != nil && o.assignment.job == job && !o.assignment.claimed }) {
		g.revoke(o, why)
	}
	g.recompute(m.group)
	return g.output()
}

// RevokeExpired revokes the assignments that were not bound before their deadline. It
// leaves alone the assignments of pods that are in the bind queue or are being bound.
func (g Assignments) RevokeExpired(now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.unconfirmedGroups {
		expired := s.ordered(func(m *member) bool {
			return m.assignment != nil && !m.hasNode() && !m.assignment.bound && !m.assignment.deadline.After(now)
		})
		for _, m := range expired {
			if m.assignment == nil || s.started && m.assignment.reserved || s.permitted && !s.started {
				// It was revoked with an earlier one, or its bind
				// is under way, or the group is in the bind queue.
				continue
			}
			why := m.whyExpired()
			g.refuseWithBackoff(m, reason.NotReserved, why, now)
			g.revoke(m, why)
		}
		if len(expired) > 0 {
			g.recompute(s)
		}
	}
	return g.output()
}

// whyExpired returns why a member's assignment is revoked at its deadline.
func (m *member) whyExpired() string {
	if s := m.group; !s.started {
		return fmt.Sprintf("only %d of the %d pods that start together could be reserved in time", s.number(reservedMembers), s.minReserved)
	}
	return fmt.Sprintf("pod %s could not be reserved on node %s in time", m.pod.Name, m.assignment.slot.Node)
}

// whyAbandoned returns the reason for revoking an assignment that a scheduling cycle has claimed and lost.
func (m *member) whyAbandoned() string {
	return fmt.Sprintf("a scheduling cycle of pod %s ended before node %s was reserved for it", m.pod.Name, m.assignment.slot.Node)
}

// WhyNotReserved returns why a pod in Permit or in the
// bind queue has no reserved assignment any more.
func (g Assignments) WhyNotReserved(uid types.UID) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members[uid].whyNotReserved()
}

// whyNotReserved returns why a member has no reserved assignment, or
// may not use it. The member is nil if the pod is not known.
func (m *member) whyNotReserved() string {
	switch {
	case m == nil:
		return "the pod was deleted, or the scheduler has not seen it yet"
	case m.assignment == nil && m.whyRevoked != "":
		return "the assignment was revoked: " + m.whyRevoked
	case m.assignment == nil:
		return "the pod has no assignment"
	case m.pod.DeletionTimestamp != nil:
		return "the pod is being deleted"
	case !m.assignment.reserved:
		return "the assignment is not reserved any more"
	default:
		return "the pod is bound already, or has ended"
	}
}

// Unclaimed returns the waiting pods whose assignment no scheduling cycle has claimed
// yet. The queue may have missed these pods. To put them there once more does no harm.
func (g Assignments) Unclaimed() []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	var pods []*corev1.Pod
	for _, s := range g.unconfirmedGroups {
		for _, m := range s.members {
			if m.assignment != nil && !m.assignment.claimed && m.isWaiting() {
				pods = append(pods, m.pod)
			}
		}
	}
	return pods
}
