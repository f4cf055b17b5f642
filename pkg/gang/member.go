package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
)

// member is a pod of a group.
type member struct {
	pod   *corev1.Pod
	group *state
	seat  *seat
	// gang says that the member waits for the PodGroup, and unseen what has to be seen before the
	// member's group is known.
	gang   bool
	unseen group.Owner
	// brought says that the pod was on a node before it was this group's, and that no bind is
	// known: who may create pods may name any node. It holds its room, and gives its group no
	// right that a match gives: it does not start it, and nobody replaces it.
	brought bool
	// freed is when the pod's last scheduling gate was seen to go, or the pod to come from another
	// group, by its label or by what controls it; zero where neither was seen.
	freed time.Time
	// fenced says whether the member's node is its group's alone; unknown until fence
	// settles it.
	fenced WholeRecord

	written
	queued
	successor
	backoff
	// no is the last refusal of a late member, which stands until there is a seat, while it may
	// ask again.
	no *Refusal
}

// written is what a pod's labels and annotations say.
type written struct {
	// said is what the annotations say of the topology.
	said group.TopologySaid
	// fault is what of the labels keeps the pod from starting, and badPolicy what is wrong
	// with the annotation, which matters unless the PodGroup has one.
	fault     *Refusal
	badPolicy error
}

// queued is what was so when a pod was last let into the queue: an order that changes under the
// queue corrupts it.
type queued struct {
	// urgent says that the member's group was incomplete, extra that it had started and the
	// member took the place of nobody, and created is the creation of its group.
	urgent  bool
	extra   bool
	created time.Time
	// letPass says that the other plugins let the member pass when it came into the queue to
	// ask, and that it was not answered since.
	letPass bool
}

// A successor is a member as far as it takes the place of another.
type successor struct {
	// place is the one that the member is in, or waits for; nil if there is none. Sought says
	// that it was looked for, and asks what the member asks for, nil until it is of interest.
	place  *place
	sought bool
	asks   *asks
	// left is the place that the member was in before it was on its way out, while it holds its
	// room; nil if there is none.
	left *place
}

// seat is what a match gave a member.
type seat struct {
	job      match.JobID
	slot     match.Slot
	deadline time.Time
	// place, counted from 1, is where the seat's turn comes among those of its job: it may
	// not be taken up before those of lower places are reserved. 0 is no order.
	place int
	// tried is set when a scheduling cycle took the seat up, reserved when it
	// came as far as Reserve, leaving while its bind is in flight, bound when the bind
	// was made.
	tried    bool
	reserved bool
	leaving  bool
	bound    bool
}

// waits says that the member wants a node and has none.
func (m *member) waits() bool {
	return m.pod.Spec.NodeName == "" && m.pod.DeletionTimestamp == nil && !terminal(m.pod) && !m.gated()
}

// gated says that a scheduling gate keeps the member from being placed.
func (m *member) gated() bool { return len(m.pod.Spec.SchedulingGates) > 0 }

// since is from when on the member's pod waits in the queue: its creation, or when its last
// scheduling gate went. As in kube-scheduler's own queue a pod that was gated has waited for nobody
// till then; otherwise whoever keeps gated pods could have them pass a group that waits, again and
// again. Gates that went before this process saw the pod are not known.
func (m *member) since() time.Time { return later(m.pod.CreationTimestamp.Time, m.freed) }

// holds says that the API shows the member on a node, not yet ended.
func (m *member) holds() bool { return m.pod.Spec.NodeName != "" && !terminal(m.pod) }

// stays says that the member holds a node that it was given and is not on its way out: it counts
// for its group. One that is to end holds its room, and keeps no incarnation alive.
func (m *member) stays() bool { return m.holds() && m.pod.DeletionTimestamp == nil && !m.brought }

// present says that the member counts for its group, or will.
func (m *member) present() bool {
	return m.stays() || m.seat != nil && m.pod.DeletionTimestamp == nil
}

// reserved says that a scheduling cycle came as far as Reserve with its seat. The seat of a
// member that is on its way out does not count: it keeps no incarnation alive.
func (m *member) reserved() bool {
	return m.seat != nil && m.seat.reserved && m.pod.DeletionTimestamp == nil
}

// late says that the member waits for a seat that nobody has refused it.
func (m *member) late(now time.Time) bool {
	return m.waits() && m.seat == nil && !m.refusal.standsAt(now)
}

// refusedSeat says that a late member asked for a seat and has none.
func (m *member) refusedSeat() bool { return m.waits() && m.seat == nil && m.no != nil }

// onNode says that the member counts and has a node: the API shows it, or the
// bind was made.
func (m *member) onNode() bool {
	return m.stays() || m.seat != nil && m.seat.bound && m.pod.DeletionTimestamp == nil
}

func (m *member) node() string {
	if m.pod.Spec.NodeName != "" {
		return m.pod.Spec.NodeName
	}
	return m.seat.slot.Node
}

func (m *member) priority() int32 { return rankOf(m.pod).Priority }

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

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
