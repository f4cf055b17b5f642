package group

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A PodGroup is what the API object of that kind says of a group.
type PodGroup struct {
	UID       types.UID
	MinMember int32
	// Created orders groups of one priority.
	Created time.Time
	// Timeout bounds the time from a match until minMember are reserved; 0 leaves
	// it to the caller.
	Timeout time.Duration
	// Ended says that no more pods are to come.
	Ended bool
	// Policy is what MatchPolicyAnnotation says.
	Policy string
	// Topology is what the annotations of topology say.
	Topology TopologySaid
	// Whole is what the status says of the nodes of the group's pods, as it was at WholeSince.
	Whole      WholeRecord
	WholeSince time.Time
	// Placed is how many pods of the group had nodes when its status last told so; 0 is unknown,
	// or that it has not been placed.
	Placed int
}

// Groups holds all groups. Its methods are safe for concurrent use and return
// without waiting for anything.
type Groups struct {
	owners Owners
	// policy is that of groups that name none.
	policy string
	levels []Level
	// amounts says how much of each resource a pod asks for; nil is nothing.
	amounts func(*corev1.Pod) map[string]int64
	// wholeNodes are the rules for whole nodes.
	wholeNodes WholeNodes

	mu      sync.Mutex
	groups  map[types.NamespacedName]*state
	members map[types.UID]*member
	// unseen are the members whose group is known when an owner is seen, by the UID
	// of that.
	unseen map[types.UID]map[types.UID]*member
	// unseated is the part of groups with a member that waits for a seat, or with
	// no member though some are to come, and seated the part with a seat that the
	// API does not show yet: what is looked through on every wake and every tick
	// stays small.
	unseated map[types.NamespacedName]*state
	seated   map[types.NamespacedName]*state
	// refused is the part of unseated with a refusal that may stand. An event of the
	// cluster is looked up in it.
	refused map[types.NamespacedName]*state
	// returned is when, by namespace, a group last asked again since its time was over. It has the
	// namespaces of the last moment alone.
	returned map[string]time.Time
	// listed says that Listed was called.
	listed bool
	// placed is what Placed has to tell.
	placed map[types.NamespacedName]bool
	// wanting is the part of groups whose time runs, and of those that it has ceased
	// to run for.
	wanting map[types.NamespacedName]*state
	// attempts numbers the matches, so that no two share a job id: what is still to
	// be given back of one can never be taken from the next.
	attempts uint64
	// events counts, by kind, the events that may help a waiting group.
	events [numEvents]uint64
	// steps is what Steps has to tell.
	steps []Step
}

// New returns an empty Groups. Owners is asked with a lock held: it answers from
// memory. The policy, one of match.Policies, is that of groups that name none, and
// levels are those that their annotations may name beside the nodes.
func New(owners Owners, policy string, levels ...Level) *Groups {
	return &Groups{
		owners:   owners,
		policy:   policy,
		levels:   levels,
		unseen:   map[types.UID]map[types.UID]*member{},
		groups:   map[types.NamespacedName]*state{},
		members:  map[types.UID]*member{},
		unseated: map[types.NamespacedName]*state{},
		seated:   map[types.NamespacedName]*state{},
		refused:  map[types.NamespacedName]*state{},
		placed:   map[types.NamespacedName]bool{},
		wanting:  map[types.NamespacedName]*state{},
		returned: map[string]time.Time{},
	}
}

// state is one group.
type state struct {
	key types.NamespacedName
	// named says that the key is that of a PodGroup, and gang that the group waits
	// for it.
	named    bool
	gang     bool
	podGroup *PodGroup
	levels   []Level
	members  map[types.UID]*member
	// created is what creation says. It is zero until that is asked for in this incarnation, and
	// while the group has no pods. Youngest is the latest creation of a member that has had a node.
	created, youngest time.Time
	// representative is the member that is let through to ask for all, or for all
	// that are late.
	representative types.UID

	// need is the number of reserved members at which the attempt may bind.
	need int
	// permitted says that as many members are reserved: they may stand at the gate.
	permitted bool
	// started says that a bind of this incarnation was sent, so that its seats cannot be
	// given back together any more. startTold says that a Step told it.
	started   bool
	startTold bool
	// taken says that a bind of this incarnation was made, or may have been: its answer is
	// not known.
	taken bool
	// checked says that lacksReason and lacksMessage are what incomplete says: it is
	// asked under the lock of the scheduler's queue, for each pod.
	checked                   bool
	lacksReason, lacksMessage string
	// topology is what asked says, nil until it is asked for.
	topology *topologyAsked
	// fenced says whether the nodes of this incarnation are its own, and matched that this
	// process settled that by a match. It stays as it is while a member is present.
	fenced  WholeRecord
	matched bool
	// life counts the incarnations that have ended.
	life uint64
	// toldShared says that Placed spoke of annotations that came too late for whole nodes.
	toldShared bool
	// met is the largest minimum that this incarnation has come up to. To ask for
	// more than that is to grow, not to lack members.
	met int
	// brought is the number of members that were created on nodes and are there: nobody has
	// placed them, and as many fewer are to be.
	brought int
	// places are those of the members that make up the minimum, as many as owed says at most:
	// fewer where the group lost members that this process never saw. Fresh are those that came
	// free, or came about, since occupy looked at them, and claimants the members that wait for
	// one.
	places, fresh []*place
	claimants     []*member
	// unseen says that there were fewer places than owed when claim last looked.
	unseen bool
	// told is the number of pods on nodes of which Placed spoke last, as far as they
	// are still there, and toldRefused that of late members that were refused.
	told        int
	toldRefused int
	refusal     *refusal
	// failures counts the refusals with backoff since the group last started,
	// refused those in a row since its last match. Hard says that one of the former was.
	failures int
	refused  int
	hard     bool
	// complete is since when the group could be asked for, zero while it may not.
	complete time.Time
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
	// yields is why the group leaves its turn to the next; empty is that it does not. Whether it
	// is to was looked at at the time looked, and is to be again at lookAt. Retry says that this
	// was asked for and has not been done.
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
	pod *corev1.Pod
	// said is what the pod's annotations say of the topology.
	said  TopologySaid
	group *state
	// brought says that the pod was on a node before it was this group's, and that no bind is
	// known: who may create pods may name any node. It holds its room, and gives its group no
	// right that a match gives: it does not start it, and nobody replaces it.
	brought bool
	seat    *seat
	// unseen is what has to be seen before the member's group is known.
	unseen Owner
	// gang says that the member waits for the PodGroup.
	gang bool
	// fault is what of its labels keeps it from starting, and badPolicy what is wrong
	// with its annotation, which matters unless the PodGroup has one.
	fault     *Refusal
	badPolicy error
	// fenced says whether the member's node is its group's alone; unknown until fence
	// settles it.
	fenced WholeRecord
	// urgent says that the member's group was incomplete when the member was last let
	// into the queue: an order that changes under the queue corrupts it.
	urgent bool
	// extra says likewise that the member's group had started then, and that the member took
	// the place of nobody. Created is the creation of its group then.
	extra   bool
	created time.Time
	// letPass says that the other plugins let the member pass when it came into the queue to
	// ask, and that it was not answered since.
	letPass bool
	// place is the one that the member is in, or waits for; nil if there is none. Sought says
	// that it was looked for, and asks what the member asks for, nil until it is of interest.
	place  *place
	sought bool
	asks   *asks
	// left is the place that the member was in before it was on its way out, while it holds its
	// room; nil if there is none.
	left *place
	// refusal is why the late member of a started group found no seat. No is the
	// last one, which stands until there is a seat, while it may ask again.
	refusal  *refusal
	no       *Refusal
	failures int
	refused  int
	hard     bool
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
	return m.pod.Spec.NodeName == "" && m.pod.DeletionTimestamp == nil && !terminal(m.pod) && len(m.pod.Spec.SchedulingGates) == 0
}

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

func (g *Groups) group(key types.NamespacedName) *state {
	s := g.groups[key]
	if s == nil {
		s = &state{key: key, members: map[types.UID]*member{}, levels: g.levels}
		g.groups[key] = s
	}
	return s
}

// settle brings what is derived from a group's members up to date: it begins a
// new incarnation when nobody is seated any more, and drops an empty group.
func (g *Groups) settle(s *state) {
	var waiting, unconfirmed, binding, remembered bool
	s.checked, s.topology = false, nil
	onNode, refused, present := 0, 0, 0
	lowest, highest := int32(math.MaxInt32), int32(math.MinInt32)
	s.gang, s.brought = false, 0
	for _, m := range s.members {
		s.gang = s.gang || m.gang
		if m.refusedSeat() {
			refused++
		}
		remembered = remembered || m.refusal != nil
		if m.waits() && m.seat == nil {
			waiting = true
			lowest, highest = min(lowest, m.priority()), max(highest, m.priority())
		}
		unconfirmed = unconfirmed || m.seat != nil && !m.holds()
		if m.present() {
			present++
		}
		if m.brought && m.holds() && m.pod.DeletionTimestamp == nil {
			s.brought++
		}
		binding = binding || m.seat != nil && !m.onNode() && !m.holds()
		if m.onNode() {
			onNode++
			s.youngest = later(s.youngest, m.pod.CreationTimestamp.Time)
		}
	}
	ended := s.started && present == 0
	if ended {
		g.step(Step{Kind: Ended, Key: s.key})
		s.permitted, s.started, s.startTold, s.taken, s.complete = false, false, false, false, time.Time{}
		s.told, s.toldRefused, s.met = 0, 0, 0
		s.life++
		s.forgive()
	}
	if present == 0 {
		s.fenced, s.matched, s.toldShared = WholeUnknown, false, false
	}
	if present == 0 && (ended || !waiting) {
		s.created = time.Time{}
	}
	if onNode > 0 {
		// It may have begun before this process did, or by somebody else's bind.
		s.started, s.taken = true, true
	}
	if s.started && s.met == 0 && !s.matched && s.podGroup != nil {
		// A minimum that was raised since is none that the group has come up to.
		s.met = min(s.podGroup.Placed, s.minimum())
	}
	if s.started && present >= s.minimum() && (s.podGroup != nil || !s.gang) {
		// Of a gang whose PodGroup is yet to be seen the minimum is not known.
		s.met = max(s.met, s.minimum())
	}
	if !s.started && lowest < highest {
		// Another may have the group's priority now.
		s.representative = ""
	}
	g.occupy(s)
	s.told = min(s.told, onNode)
	if news := onNode > s.told || refused != s.toldRefused; s.podGroup != nil && !binding && onNode > 0 && news && onNode >= s.owed() {
		s.told, s.toldRefused = max(s.told, onNode), refused
		g.placed[s.key] = true
	}
	if inVain := g.asksInVain(s) != ""; s.told > 0 && s.podGroup != nil && s.toldShared != inVain {
		s.toldShared, g.placed[s.key] = inVain, true
	}
	if !s.since.IsZero() || !s.complete.IsZero() {
		// A group with seats is past waiting, whoever joins it.
		if why, _ := g.incomplete(s); s.started || why != "" && !unconfirmed {
			s.since, s.complete = time.Time{}, time.Time{}
			s.astray = false
			s.stayInTurn()
		}
	}
	missing := len(s.members) == 0 && s.podGroup != nil && !s.podGroup.Ended
	set(g.unseated, s, waiting || missing)
	set(g.refused, s, (waiting || missing) && (remembered || s.refusal != nil))
	set(g.seated, s, unconfirmed)
	if len(s.members) == 0 && s.podGroup == nil {
		delete(g.groups, s.key)
		delete(g.wanting, s.key)
	}
}

func set(m map[types.NamespacedName]*state, s *state, in bool) {
	if in {
		m[s.key] = s
	} else {
		delete(m, s.key)
	}
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

// Tentative lists the seats that the API does not show yet: what an engine must
// be told of beside the pods, so that it does not give them out again.
func (g *Groups) Tentative() []match.Job {
	g.mu.Lock()
	defer g.mu.Unlock()
	byID := map[match.JobID]*match.Job{}
	var ids []match.JobID
	for _, s := range g.seated {
		for _, m := range s.ordered(func(m *member) bool { return m.seat != nil && !m.holds() }) {
			j := byID[m.seat.job]
			if j == nil {
				j = &match.Job{ID: m.seat.job}
				byID[m.seat.job] = j
				ids = append(ids, m.seat.job)
			}
			j.Slots = append(j.Slots, m.seat.slot)
		}
	}
	slices.Sort(ids)
	jobs := make([]match.Job, 0, len(ids))
	for _, id := range ids {
		jobs = append(jobs, *byID[id])
	}
	return jobs
}
