package gang

import (
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
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
	Topology group.TopologySaid
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
	rules
	queue queueOrder

	mu sync.Mutex
	registry
	// listed says that Listed was called.
	listed bool
	// attempts numbers the matches, so that no two share a job id: what is still to
	// be given back of one can never be taken from the next.
	attempts uint64
	// events counts, by kind, the events that may help a waiting group.
	events [numEvents]uint64
	// out is what the call is to return that is under way.
	out pending
}

// rules are what all groups go by. They never change.
type rules struct {
	owners group.Owners
	// policy is that of groups that name none.
	policy string
	levels []group.Level
	// amounts says how much of each resource a pod asks for; nil is nothing.
	amounts func(*corev1.Pod) map[string]int64
	// wholeNodes are the rules for whole nodes.
	wholeNodes WholeNodes
}

// A registry finds groups and members: all of them, and those that are of interest in some way.
type registry struct {
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
	// wanting is the part of groups whose time runs, and of those that it has ceased
	// to run for.
	wanting map[types.NamespacedName]*state
}

// New returns an empty Groups. Owners is asked with a lock held: it answers from
// memory. The policy, one of match.Policies, is that of groups that name none, and
// levels are those that their annotations may name beside the nodes.
func New(owners group.Owners, policy string, levels ...group.Level) *Groups {
	return &Groups{
		rules: rules{owners: owners, policy: policy, levels: levels},
		registry: registry{
			unseen:   map[types.UID]map[types.UID]*member{},
			groups:   map[types.NamespacedName]*state{},
			members:  map[types.UID]*member{},
			unseated: map[types.NamespacedName]*state{},
			seated:   map[types.NamespacedName]*state{},
			refused:  map[types.NamespacedName]*state{},
			wanting:  map[types.NamespacedName]*state{},
			returned: map[string]time.Time{},
		},
	}
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
			s.youngest = later(s.youngest, m.since())
		}
	}
	ended := s.started && present == 0
	if ended {
		g.out.transition(Transition{Kind: Ended, Key: s.key})
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
		g.out.place(s.key)
	}
	if inVain := g.asksInVain(s) != ""; s.told > 0 && s.podGroup != nil && s.toldShared != inVain {
		s.toldShared = inVain
		g.out.place(s.key)
	}
	if !s.since.IsZero() || !s.complete.IsZero() {
		// A group with seats is past waiting, whoever joins it.
		if why, _ := g.incomplete(s); s.started || why != "" && !unconfirmed {
			s.since, s.complete = time.Time{}, time.Time{}
			s.astray, s.lacked = false, s.lacked || why != ""
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
