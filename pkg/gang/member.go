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
	// needsPodGroup says that the member waits for the PodGroup, and unseen what has to be seen before the
	// member's group is known.
	needsPodGroup bool
	missingOwner  group.Owner
	// preplaced says that the pod was on a node before it was this group's, and that no bind is
	// known: who may create pods may name any node. It holds its room, and gives its group no
	// right that a match gives: it does not start it, and nobody replaces it.
	preplaced bool
	// waitRestart is when the pod's last scheduling gate was seen to go, or the pod to come from another
	// group, by its label or by what controls it; zero where neither was seen.
	waitRestart time.Time
	// exclusivity says whether the member's node is its group's alone; unknown until fence
	// settles it.
	exclusivity Exclusivity

	podMeta
	queueEntry
	memberPosition
	backoff
	// lastRefusal is the last refusal of a late member, which stands until there is a seat, while it may
	// ask again.
	lastRefusal *Refusal
}

// podMeta is what a pod's labels and annotations say.
type podMeta struct {
	// topology is what the annotations say of the topology.
	topology group.TopologyAnnotations
	// labelFault is what of the labels keeps the pod from starting, and policyError what is wrong
	// with the annotation, which matters unless the PodGroup has one.
	labelFault  *Refusal
	policyError error
}

// queueEntry is what was so when a pod was last let into the queue: an order that changes under the
// queue corrupts it.
type queueEntry struct {
	// urgent says that the member's group was incomplete, extra that it had started and the
	// member took the place of nobody, and created is the creation of its group.
	urgent  bool
	extra   bool
	created time.Time
	// passedOtherPlugins says that the other plugins let the member pass when it came into the queue to
	// ask, and that it was not answered since.
	passedOtherPlugins bool
}

// A successor is a member as far as it takes the place of another.
type memberPosition struct {
	// position is the one that the member is in, or waits for; nil if there is none. Sought says
	// that it was looked for, and asks what the member asks for, nil until it is of interest.
	position *position
	searched bool
	demand   *demand
	// formerPosition is the place that the member was in before it was on its way out, while it holds its
	// room; nil if there is none.
	formerPosition *position
}

// assignment is what a match gave a member.
type assignment struct {
	job      match.JobID
	slot     match.Slot
	deadline time.Time
	// order, counted from 1, is where the seat's turn comes among those of its job: it may
	// not be taken up before those of lower places are reserved. 0 is no order.
	order int
	// claimed is set when a scheduling cycle took the seat up, reserved when it
	// came as far as Reserve, leaving while its bind is in flight, bound when the bind
	// was made.
	claimed  bool
	reserved bool
	binding  bool
	bound    bool
}

// isWaiting says that the member wants a node and has none.
func (m *member) isWaiting() bool {
	return m.pod.Spec.NodeName == "" && m.pod.DeletionTimestamp == nil && !isTerminal(m.pod) && !m.isGated()
}

// isGated says that a scheduling gate keeps the member from being placed.
func (m *member) isGated() bool { return len(m.pod.Spec.SchedulingGates) > 0 }

// waitingSince is from when on the member's pod waits in the queue: its creation, or when its last
// scheduling gate went. As in kube-scheduler's own queue a pod that was gated has waited for nobody
// till then; otherwise whoever keeps gated pods could have them pass a group that waits, again and
// again. Gates that went before this process saw the pod are not known.
func (m *member) waitingSince() time.Time { return later(m.pod.CreationTimestamp.Time, m.waitRestart) }

// hasNode says that the API shows the member on a node, not yet ended.
func (m *member) hasNode() bool { return m.pod.Spec.NodeName != "" && !isTerminal(m.pod) }

// keepsNode says that the member holds a node that it was given and is not on its way out: it counts
// for its group. One that is to end holds its room, and keeps no incarnation alive.
func (m *member) keepsNode() bool {
	return m.hasNode() && m.pod.DeletionTimestamp == nil && !m.preplaced
}

// isPresent says that the member counts for its group, or will.
func (m *member) isPresent() bool {
	return m.keepsNode() || m.assignment != nil && m.pod.DeletionTimestamp == nil
}

// isReserved says that a scheduling cycle came as far as Reserve with its seat. The seat of a
// member that is on its way out does not count: it keeps no incarnation alive.
func (m *member) isReserved() bool {
	return m.assignment != nil && m.assignment.reserved && m.pod.DeletionTimestamp == nil
}

// isLate says that the member waits for a seat that nobody has refused it.
func (m *member) isLate(now time.Time) bool {
	return m.isWaiting() && m.assignment == nil && !m.refusal.isActive(now)
}

// isRefused says that a late member asked for a seat and has none.
func (m *member) isRefused() bool {
	return m.isWaiting() && m.assignment == nil && m.lastRefusal != nil
}

// isPlaced says that the member counts and has a node: the API shows it, or the
// bind was made.
func (m *member) isPlaced() bool {
	return m.keepsNode() || m.assignment != nil && m.assignment.bound && m.pod.DeletionTimestamp == nil
}

func (m *member) node() string {
	if m.pod.Spec.NodeName != "" {
		return m.pod.Spec.NodeName
	}
	return m.assignment.slot.Node
}

func (m *member) priority() int32 { return rankOf(m.pod).Priority }

// isNext says whether all seats of the same match are reserved that come before the
// member's.
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

func isTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
