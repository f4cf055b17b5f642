package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
)

// member is a pod of a group.
type member struct {
	pod        *corev1.Pod
	group      *groupState
	assignment *assignment
	// whyRevoked is why the last assignment was revoked, in words.
	// It is empty if no assignment was revoked since the last match.
	whyRevoked string
	// missingOwner is the owner that has to be seen before the
	// member's group is known. It is zero if none is missing.
	missingOwner group.Owner
	// preplaced is true if the pod came to this group with a node, and no bind for
	// this group is known. Anyone who may create pods may name any node. Such a pod
	// takes its room, but it does not start the group, and no other pod replaces it.
	preplaced bool
	// waitRestart is when the pod lost its last scheduling gate, or came from another group
	// because its label or its owner changed. It is zero if this process saw neither.
	waitRestart time.Time
	// exclusivity says whether the member's node is exclusive to
	// its group. It is unknown until settleExclusivity decides.
	exclusivity Exclusivity

	memberNeeds
	podMeta
	tallyEntry
	queueEntry
	memberPosition
	refusalState
	// lastRefusal is the last refusal of a late member. It stays until
	// the member has an assignment, even while the member may retry.
	lastRefusal *Refusal
}

// memberNeeds is what a member waits for before it may be placed.
type memberNeeds struct {
	// needsPodGroup is true if the member waits for its PodGroup to exist.
	needsPodGroup bool
	// needsMinimum is true if the member waits for a
	// minimum of its native PodGroup, if that has none.
	needsMinimum bool
}

// podMeta is what the labels and annotations of a pod ask for.
type podMeta struct {
	// topology holds the topology annotations.
	topology group.TopologyAnnotations
	// labelFault is the refusal for an invalid size label. It is nil if the labels are valid.
	labelFault *Refusal
	// policyError is what is wrong with the annotation of the match
	// policy. It does not count if the PodGroup names a policy.
	policyError error
	// durationError is what is wrong with the annotation of the duration. It
	// does not count if the PodGroup has one.
	durationError error
}

// queueEntry holds what is known of a pod in the queue. The values that its rank is made of are frozen
// when the pod enters the queue, because the queue's heap breaks if the order of its entries changes.
type queueEntry struct {
	// urgent is true if the pod was a replacement of a missing member.
	urgent bool
	// addedLate is true if the group had started and the pod replaced no member.
	addedLate bool
	// orderTime is the result of the group's method orderTime at that moment.
	orderTime time.Time
	// passedOtherPlugins is true if the other plugins let the member pass when it
	// came into the queue to be placed, and the member has had no answer since.
	passedOtherPlugins bool
}

// memberPosition is the part of a member in the positions and the seats of its group.
type memberPosition struct {
	// seatless is true if the member could not take the seat that it had got. Then it takes no other.
	seatless bool
	// position is the position that the member fills, or waits to fill. It is nil if there is none.
	position *position
	// search is the number of the group's search that looked for a position. 0 means none.
	search int
	// demand is what the member asks for. It is nil until demandOf is called.
	demand *demand
	// formerPosition is the position that the member filled before it was to
	// be deleted, while it still has its node. It is nil if there is none.
	formerPosition *position
}

// assignment is the slot that a match gave to a member, and how far the member has taken it up.
type assignment struct {
	job  match.JobID
	slot match.Slot
	// epoch is the epoch of the matcher's graph in which it was matched.
	epoch match.Epoch
	// deadline is when the assignment is revoked, if its bind is not under way by then.
	deadline time.Time
	// order is the number of the assignment in its job, counted from 1. A
	// scheduling cycle may take it up only when all assignments with a
	// lower number are reserved. 0 means that there is no order.
	order int
	// claimed is true once a scheduling cycle has taken the assignment up.
	claimed bool
	// reserved is true once the cycle has reached Reserve.
	reserved bool
	// binding is true while the bind is in flight.
	binding bool
	// bound is true once the bind was made.
	bound bool
	// seat is the seat that the member has taken. It is nil if a match was made for the member.
	seat *seat
}

// isWaiting reports whether the member has no node and may be given one.
func (m *member) isWaiting() bool {
	return m.pod.Spec.NodeName == "" && m.pod.DeletionTimestamp == nil && !isTerminal(m.pod) && !m.isGated()
}

// isGated reports whether a scheduling gate keeps the member from being placed.
func (m *member) isGated() bool { return len(m.pod.Spec.SchedulingGates) > 0 }

// waitingSince returns since when the member has waited: its creation, or waitRestart if that
// is later. The time behind a scheduling gate does not count, as in kube-scheduler's own
// queue. Otherwise a user who keeps gated pods in stock could have them pass a group that
// waits, again and again. Gates that went before this process saw the pod are not known.
func (m *member) waitingSince() time.Time { return later(m.pod.CreationTimestamp.Time, m.waitRestart) }

// hasNode reports whether the API shows the member on a node, and it has not ended.
func (m *member) hasNode() bool { return m.pod.Spec.NodeName != "" && !isTerminal(m.pod) }

// keepsNode reports whether the member has a node by a bind for this group,
// and is not being deleted. Then it counts for its group. A pod that is
// being deleted still takes its room, but it keeps no incarnation alive.
func (m *member) keepsNode() bool {
	return m.hasNode() && m.pod.DeletionTimestamp == nil && !m.preplaced
}

// isPresent reports whether the member counts for its group: it
// keeps a node or has an assignment, and is not being deleted.
func (m *member) isPresent() bool {
	return m.keepsNode() || m.assignment != nil && m.pod.DeletionTimestamp == nil
}

// isReserved reports whether a scheduling cycle has reserved the member's assignment. It
// returns false if the pod is being deleted, because such a pod keeps no incarnation alive.
func (m *member) isReserved() bool {
	return m.assignment != nil && m.assignment.reserved && m.pod.DeletionTimestamp == nil
}

// isPlaceable reports whether the member waits without an assignment, has no active
// refusal, and does not wait for others of a stage that begins.
func (m *member) isPlaceable(now time.Time) bool {
	return m.isWaiting() && m.assignment == nil && !m.refusal.isActive(now) && freshStageOf(m).whyGathers() == ""
}

// wasRefused reports whether a late member was refused, and still waits without an
// assignment. It stays true when the refusal has ended and the member may retry.
func (m *member) wasRefused() bool {
	return m.isWaiting() && m.assignment == nil && m.lastRefusal != nil
}

// isPlaced reports whether the member counts for its group
// and is on a node, by the API or by a bind that was made.
func (m *member) isPlaced() bool {
	return m.keepsNode() || m.assignment != nil && m.assignment.bound && m.pod.DeletionTimestamp == nil
}

// node returns the node of a member that has a node or an assignment.
func (m *member) node() string {
	if m.pod.Spec.NodeName != "" {
		return m.pod.Spec.NodeName
	}
	return m.assignment.slot.Node
}

func (m *member) priority() int32 { return rankOf(m.pod).Priority }

// isNext reports whether all assignments of the same job that have a lower order are reserved.
func (m *member) isNext() bool {
	if m.assignment.order == 0 {
		return true
	}
	for _, o := range m.group.members {
		if o.assignment != nil && o.assignment.job == m.assignment.job && o.assignment.order < m.assignment.order && !o.assignment.reserved {
			return false
		}
	}
	return true
}

// isTerminal reports whether a pod has succeeded or failed.
func isTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
