package group

import (
	"cmp"
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
}

// Groups holds all groups. Its methods are safe for concurrent use and return
// without waiting for anything.
type Groups struct {
	mu      sync.Mutex
	groups  map[types.NamespacedName]*state
	members map[types.UID]*member
	// unseated is the part of groups with a member that waits for a seat, or with
	// no member though some are to come, and seated the part with a seat that the API does not show yet: what is looked
	// through on every wake and every tick stays small.
	unseated map[types.NamespacedName]*state
	seated   map[types.NamespacedName]*state
	// placed is what Placed has to tell.
	placed map[types.NamespacedName]bool
	// attempts numbers the matches, so that no two share a job id: what is still to
	// be given back of one can never be taken from the next.
	attempts uint64
	// events counts, by kind, the events that may help a waiting group.
	events [numEvents]uint64
}

// New returns an empty Groups.
func New() *Groups {
	return &Groups{
		groups:   map[types.NamespacedName]*state{},
		members:  map[types.UID]*member{},
		unseated: map[types.NamespacedName]*state{},
		seated:   map[types.NamespacedName]*state{},
		placed:   map[types.NamespacedName]bool{},
	}
}

// state is one group.
type state struct {
	key      types.NamespacedName
	gang     bool
	podGroup *PodGroup
	members  map[types.UID]*member
	// created is frozen when the queue first asks for it: an order that changes
	// under the queue corrupts it.
	created time.Time
	// representative is the member that is let through to ask for all.
	representative types.UID

	// need is the number of reserved members at which the attempt may bind.
	need int
	// started says that a member of this incarnation was let bind.
	started bool
	// told is the number of pods on nodes when Placed last spoke of the group.
	told    int
	refusal *refusal
	// failures counts the refusals with backoff since the group last started,
	// refused those in a row since its last match.
	failures int
	refused  int
}

// member is a pod of a group.
type member struct {
	pod   *corev1.Pod
	group *state
	seat  *seat
	// refusal is why the member of a started group found no seat of its own.
	refusal  *refusal
	failures int
	refused  int
}

// seat is what a match gave a member.
type seat struct {
	job      match.JobID
	slot     match.Slot
	deadline time.Time
	// tried is set when a scheduling cycle took the seat up, reserved when it
	// came as far as Reserve, bound when the bind was made.
	tried    bool
	reserved bool
	bound    bool
}

// waits says that the member wants a node and has none.
func (m *member) waits() bool {
	return m.pod.Spec.NodeName == "" && m.pod.DeletionTimestamp == nil && !terminal(m.pod) && len(m.pod.Spec.SchedulingGates) == 0
}

// holds says that the API shows the member on a node, not yet ended.
func (m *member) holds() bool { return m.pod.Spec.NodeName != "" && !terminal(m.pod) }

// onNode says that the member has a node: the API shows it, or the bind was made.
func (m *member) onNode() bool { return m.holds() || m.seat != nil && m.seat.bound }

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// PutPod takes note of a pod as the API shows it.
func (g *Groups) PutPod(pod *corev1.Pod) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := Of(pod)
	m := g.members[pod.UID]
	var e Effects
	if m != nil && m.group.key != id.Key {
		// The group label was changed: the pod leaves one group for another. What it
		// holds on a node it keeps.
		if m.holds() {
			m.seat = nil
		}
		e = g.drop(m)
		m = nil
	}
	if m == nil {
		s := g.group(id.Key)
		s.gang = s.gang || id.Gang
		m = &member{pod: pod, group: s}
		s.members[pod.UID] = m
		g.members[pod.UID] = m
	}
	m.pod = pod
	switch {
	case m.seat == nil:
	case m.holds() && m.seat.slot.Node != pod.Spec.NodeName:
		// Somebody else bound it. The cluster is right; the seat is free.
		e.release(m.seat.job, string(pod.UID))
		m.seat = nil
	case terminal(pod) && pod.Spec.NodeName != "":
		// It may have ended before the inventory saw it on its node.
		e.release(m.seat.job, string(pod.UID))
		m.seat = nil
	case terminal(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == "":
		e.add(g.unseat(m, "a member of the group was deleted"))
	}
	g.settle(m.group)
	return e
}

// DropPod forgets a pod that the API no longer has.
func (g *Groups) DropPod(uid types.UID) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil {
		return Effects{}
	}
	return g.drop(m)
}

func (g *Groups) drop(m *member) Effects {
	var e Effects
	if m.seat != nil && m.holds() {
		// It may have gone before the inventory saw it on its node.
		e.release(m.seat.job, string(m.pod.UID))
		m.seat = nil
	}
	e.add(g.unseat(m, "a member of the group was deleted"))
	delete(m.group.members, m.pod.UID)
	delete(g.members, m.pod.UID)
	if m.group.representative == m.pod.UID {
		m.group.representative = ""
	}
	g.settle(m.group)
	return e
}

// PutPodGroup takes note of a group's API object.
func (g *Groups) PutPodGroup(key types.NamespacedName, pg PodGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.group(key)
	if s.podGroup == nil || *s.podGroup != pg {
		// What was refused may be another request now.
		s.forgive()
	}
	if s.podGroup == nil || s.podGroup.UID != pg.UID {
		// Nothing was told on this object yet.
		s.told = 0
	}
	s.podGroup, s.gang = &pg, true
	g.settle(s)
}

// DropPodGroup forgets a group's API object. Members that hold nodes keep them.
func (g *Groups) DropPodGroup(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil {
		s.podGroup = nil
		g.settle(s)
	}
}

func (g *Groups) group(key types.NamespacedName) *state {
	s := g.groups[key]
	if s == nil {
		s = &state{key: key, members: map[types.UID]*member{}}
		g.groups[key] = s
	}
	return s
}

// settle brings what is derived from a group's members up to date: it begins a
// new incarnation when nobody is seated any more, and drops an empty group.
func (g *Groups) settle(s *state) {
	var waiting, unconfirmed, present, binding bool
	onNode := 0
	for _, m := range s.members {
		waiting = waiting || m.waits() && m.seat == nil
		unconfirmed = unconfirmed || m.seat != nil && !m.holds()
		present = present || m.seat != nil || m.holds()
		binding = binding || m.seat != nil && !m.onNode()
		if m.onNode() {
			onNode++
		}
	}
	if s.started && !present {
		s.started = false
		s.told = 0
		s.forgive()
	}
	if !s.started && !unconfirmed && present {
		// Seen for the first time after a restart: it began before us.
		s.started = true
	}
	if s.gang && s.podGroup != nil && !binding && onNode > s.told && onNode >= int(s.podGroup.MinMember) {
		s.told = onNode
		g.placed[s.key] = true
	}
	missing := len(s.members) == 0 && s.podGroup != nil && !s.podGroup.Ended
	set(g.unseated, s, waiting || missing)
	set(g.seated, s, unconfirmed)
	if len(s.members) == 0 && s.podGroup == nil {
		delete(g.groups, s.key)
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
	slices.SortFunc(ms, func(a, b *member) int {
		return cmp.Or(
			a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time),
			cmp.Compare(a.pod.Name, b.pod.Name),
		)
	})
	return ms
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

// JobOf returns the job that a pod was matched under, or the one that stands
// for a pod matched by nobody known.
func (g *Groups) JobOf(pod *corev1.Pod) match.JobID {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[pod.UID]; m != nil && m.seat != nil && (pod.Spec.NodeName == "" || m.seat.slot.Node == pod.Spec.NodeName) {
		return m.seat.job
	}
	return match.NewJobID("pod", string(pod.UID))
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
