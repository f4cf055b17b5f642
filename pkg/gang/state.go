package gang

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
)

// state is one group.
type state struct {
	key types.NamespacedName
	// named says that the key is that of a PodGroup, and gang that the group waits
	// for it.
	named    bool
	gang     bool
	podGroup *PodGroup
	levels   []group.Level
	members  map[types.UID]*member
	// representative is the member that is let through to ask for all, or for all
	// that are late.
	representative types.UID
	// brought is the number of members that were created on nodes and are there: nobody has
	// placed them, and as many fewer are to be.
	brought int

	incarnation
	derived
	succession
	backoff
	waiting
	yielding
}

// An incarnation is what becomes of a group from its match until no member is seated or holds a
// node any more.
type incarnation struct {
	// life counts the incarnations that have ended.
	life uint64
	// created is what creation says. It is zero until that is asked for in this incarnation, and
	// while the group has no pods. Youngest is the latest creation of a member that has had a
	// node in any incarnation.
	created, youngest time.Time
	// need is the number of reserved members at which the attempt may bind.
	need int
	// permitted says that as many members are reserved: they may stand at the gate.
	permitted bool
	// started says that a bind of this incarnation was sent, so that its seats cannot be
	// given back together any more. StartTold says that a Transition told it.
	started   bool
	startTold bool
	// taken says that a bind of this incarnation was made, or may have been: its answer is
	// not known.
	taken bool
	// met is the largest minimum that this incarnation has come up to. To ask for
	// more than that is to grow, not to lack members.
	met int
	// told is the number of pods on nodes of which Placed spoke last, as far as they
	// are still there, and toldRefused that of late members that were refused.
	told        int
	toldRefused int
	// fenced says whether the nodes of this incarnation are its own, and matched that this
	// process settled that by a match. It stays as it is while a member is present.
	fenced  WholeRecord
	matched bool
	// toldShared says that Placed spoke of annotations that came too late for whole nodes.
	toldShared bool
}

// derived is what follows from a group's members and PodGroup, once somebody has asked.
type derived struct {
	// checked says that lacksReason and lacksMessage are what incomplete says: it is
	// asked under the lock of the scheduler's queue, for each pod.
	checked                   bool
	lacksReason, lacksMessage string
	// topology is what asked says, nil until it is asked for.
	topology *topologyAsked
}

// A succession says who takes the place of a member that a started group lost.
type succession struct {
	// places are those of the members that make up the minimum, as many as owed says at most:
	// fewer where the group lost members that this process never saw. Fresh are those that came
	// free, or came about, since occupy looked at them, and claimants the members that wait for
	// one.
	places, fresh []*place
	claimants     []*member
	// unseen says that there were fewer places than owed when claim last looked.
	unseen bool
}

// A backoff is what is remembered of the refusals of a group, or of a late member.
type backoff struct {
	// refusal is the last one, nil once it has run out.
	refusal *refusal
	// failures counts the refusals with Backoff since the group last started or the member last
	// asked for something else, and refused those in a row since the last match. Hard says that
	// one of the former was.
	failures int
	refused  int
	hard     bool
}

// refuse takes note of a refusal of the pod that has this rank.
func (b *backoff) refuse(r Refusal, rank Rank, now time.Time) *refusal {
	b.refusal = newRefusal(r, b.failures, b.refused, now)
	b.refusal.rank = rank
	b.refused++
	if b.hard = b.hard || r.Hard; r.Backoff {
		b.failures++
	}
	return b.refusal
}

// backoffs yields what is remembered of the refusals of a group and of its members.
func (s *state) backoffs(yield func(*backoff) bool) {
	if !yield(&s.backoff) {
		return
	}
	for _, m := range s.members {
		if !yield(&m.backoff) {
			return
		}
	}
}

// waiting is since when a group has waited, and for what.
type waiting struct {
	// complete is since when the group could be asked for, zero while it may not.
	complete time.Time
	// lacked says that the group was seen to lack something since it last was complete, and
	// completed is when it was so after that; zero where it was never seen to lack anything.
	lacked    bool
	completed time.Time
	// since is the first in a row of the refusals that room could cure; zero while the
	// group is not refused for want of room, or lacks members.
	since time.Time
	// before is what since was for a scheduler before this one, and known says
	// that this one has refused the group as well, so that it knows better. Answered says that it
	// has refused it for any reason, so that its PodGroup tells of that.
	before   time.Time
	known    bool
	answered bool
	// astray says that the last refusal was one that room does not cure, while since stays.
	astray bool
}

// yielding is whether a group leaves its turn to the next, since no nodes could be reserved for it.
type yielding struct {
	// yields is why it does; empty is that it does not. Way has the nodes that could be reserved
	// but for pods that do not end. Whether it is to yield was looked at at the time looked, and is
	// to be again at lookAt. Retry says that this was asked for and has not been done.
	yields         string
	way            *NodeFilter
	looked, lookAt time.Time
	// soon says that something has it look soon, which is when pause is over.
	soon  bool
	pause time.Duration
	retry bool
}

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
	// freed is when the pod's last scheduling gate was seen to go; zero where it was never seen
	// gated.
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

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// ordered lists the members for which keep holds, the oldest first.
func (s *state) ordered(keep func(*member) bool) []*member {
	var ms []*member
	for _, m := range s.members {
		if keep(m) {
			ms = append(ms, m)
		}
	}
	slices.SortFunc(ms, older)
	return ms
}

// first returns the oldest member for which keep holds, or nil.
func (s *state) first(keep func(*member) bool) *member {
	var first *member
	for _, m := range s.members {
		if keep(m) && (first == nil || older(m, first) < 0) {
			first = m
		}
	}
	return first
}

func older(a, b *member) int {
	return cmp.Or(
		a.since().Compare(b.since()),
		a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time),
		cmp.Compare(a.pod.Name, b.pod.Name),
	)
}

func (s *state) count(keep func(*member) bool) int {
	n := 0
	for _, m := range s.members {
		if keep(m) {
			n++
		}
	}
	return n
}
