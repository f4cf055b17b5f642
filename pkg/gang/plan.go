package gang

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// Matching is the role that says what to place for a pod, and records what the matcher answered.
type Matching struct{ *core }

// A Plan is what to place for a pod whose scheduling cycle begins.
type Plan struct {
	// Node is the node of the pod's assignment. If it is set, there is nothing to match.
	Node string
	// Wait says why there is nothing to match now.
	Wait Verdict

	Key types.NamespacedName
	// Job is the id of the match.
	Job match.JobID
	// Required lists the pods that have to be placed together. The Plan's pod is the first.
	Required []*corev1.Pod
	// Optional lists the pods to place with them, as many as there is
	// room for. No pod of a Plan has a lower priority than the first.
	Optional []*corev1.Pod
	// Timeout is the PodGroup's timeout, 0 if it has none.
	Timeout time.Duration
	// Policy is the match policy.
	Policy string
	// Holder is the name of the group for the matcher. It is the same in all matches of the group.
	Holder string
	Seating
	Nearness
	Precedence
	Replacement
	MatchInfo
	snapshot
}

// A Seating is what a Plan has to do with pods that are expected, and with their seats.
type Seating struct {
	// Expected is the number of the last pods of Required that do not exist yet: they stand for pods
	// that are expected.
	Expected int
	// Note says why these are not all expected pods, in words fit for a user. It is empty if they are.
	Note string
	// Seated lists other pods that have taken seats. The caller puts them into the queue.
	Seated []*corev1.Pod
	// InsteadOf is the seat of the Plan's pod, which asks for more than it. It is nil if there is none. The
	// caller releases the seat before the match, so that its room counts, and books it again if the match
	// finds nothing, before it matches anything else.
	InsteadOf *match.Job
}

// A Nearness is how near to each other the pods of a group are to be.
type Nearness struct {
	// Near lists the nodes of the siblings that have a node or an assignment.
	Near []string
	// AnyRoom is true if the pods need not be near these siblings. They share a domain all the same.
	AnyRoom bool
	// PodsPerNode is how many pods of the group may be on one node. It is 0 if there is no bound. Occupied
	// lists the nodes where pods of the group are already, each as often as there are such pods.
	PodsPerNode int64
	Occupied    []string
	// Topology is the topology that the group asks for. It is nil if the group asks for none.
	Topology *jobspec.Topology
	// Domain is a node label: the nodes of all pods of the group have to have the
	// same value of it. It is empty if the group asks for no such label.
	Domain string
}

// A Precedence is the place of a Plan's pod in the queue, and in the order of reservations.
type Precedence struct {
	// Rank is the place of the pod in the queue.
	Rank Rank
	// Late is true if the group has started.
	Late bool
	// EligibleSince replaces Rank.Since in the order of reservations, if it is later. It is:
	//
	//   - for a group that has not started, since when the group could be placed (see StarvingGroup.Rank);
	//   - for a replacement, the start of the pod's wait;
	//   - for any other late member, zero.
	EligibleSince time.Time
}

// A Replacement is which members the pods of a Plan replace. It is zero if the Plan's pod is no replacement.
type Replacement struct {
	// Missing is how many members the started group is missing. If it is
	// not 0, the Plan's Optional pods are replacements too.
	Missing int
	// LostMembers lists the members that the pods replace, in the order of the pods.
	LostMembers []LostMember
}

// A MatchInfo is what is known of the match of a Plan. The caller sets it before Assign.
type MatchInfo struct {
	// Epoch is the epoch of the matcher's graph in which the match was made.
	Epoch match.Epoch
	// InOrder says that the pods take up their assignments in the order of the slots given to Assign.
	InOrder bool
	// Room is what was given to the group before its pods existed. The caller sets it before the match.
	Room Room
}

// A Room is what pods take over of another job of the matcher. The zero Room is none.
type Room struct {
	// Job holds the room.
	Job match.JobID
	// Keys are the slots to take over. Nodes are their nodes, in the same order, if the pods of the Plan are to be exactly
	// there. Otherwise they may be anywhere.
	Keys, Nodes []string
}

// snapshot is what a Plan was made from.
type snapshot struct {
	uid    types.UID
	events [numEvents]uint64
	// requestChanges is the number of changes of what the group asks for.
	requestChanges uint64
	// completeSince is since when the group has been complete.
	completeSince time.Time
	// podGroup is the UID of the group's PodGroup.
	podGroup types.UID
	// standIns has the templates of the stand-ins among Required, by UID, and the stand-ins.
	standIns map[types.UID]standIn
}

// Pod returns the UID of the pod that the Plan is for.
func (p Plan) Pod() types.UID { return p.uid }

// A LostMember is what is known of a member that another replaces. Node is empty if the node
// is not known. Pod is a stub with only the tolerations of the member's pod. It is nil if the node is not known.
type LostMember struct {
	Node string
	Pod  *corev1.Pod
}

// lostMember describes the last member of the position.
func (p *position) lostMember() LostMember {
	if p.node == "" {
		return LostMember{}
	}
	return LostMember{p.node, &corev1.Pod{Spec: corev1.PodSpec{Tolerations: p.tolerations}}}
}

// Plan returns what to place for a pod whose scheduling cycle begins.
// Carry out the Output first: if an earlier cycle claimed the pod's
// assignment and ended without a result, Plan revokes the assignment.
func (g Matching) Plan(uid types.UID, now time.Time) (Plan, Output) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.plan(uid, now)
	return p, g.output()
}

// plan is Plan without the lock and the Output.
func (g Matching) plan(uid types.UID, now time.Time) Plan {
	m := g.members[uid]
	if m == nil {
		return Plan{Wait: Verdict{Reason: reason.NotSeenYet, Message: whyUnseen}}
	}
	s := m.group
	if m.assignment != nil && m.assignment.claimed && !m.assignment.reserved {
		if g.leaveSeat(m, m.whyAbandoned()); m.assignment != nil {
			g.revoke(m, m.whyAbandoned())
		}
		g.recompute(s)
	}
	if m.assignment != nil {
		m.assignment.claimed = true
		return Plan{Node: m.assignment.slot.Node}
	}
	var seating Seating
	seating.Seated = slices.DeleteFunc(g.takeSeats(s, now), func(pod *corev1.Pod) bool { return pod.UID == uid })
	if m.assignment != nil {
		m.assignment.claimed = true
		return Plan{Node: m.assignment.slot.Node, Seating: seating}
	}
	if v := g.verdict(m, now); !v.Pass {
		if v.Message == "" {
			v.Message = "waits while another pod of the group is scheduled on behalf of all"
		}
		return Plan{Wait: v, Seating: seating}
	}
	p := Plan{Seating: seating, Key: s.key, Holder: s.key.String(), Precedence: Precedence{Rank: m.rank(), Late: s.started}, snapshot: snapshot{uid: uid, events: g.events, requestChanges: s.requestChanges}}
	replaces := m.isReplacement()
	switch {
	case replaces:
		p.Missing, p.EligibleSince = s.missing(), m.waitingSince()
	case s.started:
		// The pod may have come into the queue as a replacement.
		p.Rank = p.Rank.notBefore(m.waitingSince())
	default:
		// The pod may have come into the queue in an earlier incarnation.
		p.Rank = p.Rank.notBefore(s.orderTime(m))
		p.EligibleSince = s.eligibleSince(m)
	}
	p.Policy = g.policyFor(m)
	p.Topology, p.AnyRoom = s.effectiveTopology().topology, group.IsArray(m.pod.Annotations)
	p.PodsPerNode, p.Occupied = perNode(s)
	for _, sibling := range s.ordered(func(o *member) bool { return o != m && o.isPresent() }) {
		p.Near = append(p.Near, sibling.node())
	}
	if s.podGroup != nil {
		p.Timeout, p.podGroup, p.Domain = s.podGroup.Timeout, s.podGroup.UID, s.podGroup.Domain
	}
	if s.started {
		// The siblings have their nodes: only this pod is required.
		p.Job = g.nextJob(string(uid))
		p.Required = []*corev1.Pod{m.pod}
		required := map[types.UID]bool{uid: true}
		if f := freshStageOf(m); f.stage > 0 {
			// The stage is a gang of its own size.
			for _, o := range f.waiters(s) {
				if o != m && len(p.Required) < f.together {
					p.Required, required[o.pod.UID] = append(p.Required, o.pod), true
				}
			}
			g.addExpected(&p, s, expectedPods(s, f.stage, false), now)
		}
		if t := seatTooSmall(m); t != nil {
			p.InsteadOf = &match.Job{ID: t.job, Slots: []match.Slot{t.slot}}
		}
		if replaces {
			p.LostMembers = []LostMember{m.position.lostMember()}
		}
		for _, o := range s.ordered(func(o *member) bool {
			return !required[o.pod.UID] && o.isPlaceable(now) && o.priority() >= m.priority() && (o.position != nil || !replaces) && seatTooSmall(o) == nil
		}) {
			p.Optional = append(p.Optional, o.pod)
			if replaces {
				p.LostMembers = append(p.LostMembers, o.position.lostMember())
			}
		}
		return p
	}
	p.Job = g.nextJob(s.id(uid))
	s.minReserved, p.completeSince = s.minimum(), s.completeSince
	// The representative is one of the pods that have to be placed. Members
	// of a lower priority are not part of this match. They are placed as
	// late members, at their own priority, once the group has started.
	waiting := s.ordered(func(o *member) bool { return o != m && o.isWaiting() && o.priority() >= m.priority() })
	p.Required = append(p.Required, m.pod)
	for _, o := range waiting {
		if len(p.Required) < s.minReserved {
			p.Required = append(p.Required, o.pod)
		} else {
			p.Optional = append(p.Optional, o.pod)
		}
	}
	g.addExpected(&p, s, expectedPods(s, stageOf(s), asksTogether(s, m)), now)
	if _, err := g.restartTimeout(m); err != nil {
		p.Note = strings.TrimPrefix(p.Note+"; "+err.Error(), "; ")
	}
	return p
}

// nextJob returns the id of the next match. It is made from the UID of a group or of a late member.
func (g Matching) nextJob(uid string) match.JobID {
	g.attempts++
	return match.NewJobID("match", uid, strconv.FormatUint(g.attempts, 10))
}

// id returns what distinguishes the group from earlier and later groups of the
// same name: the UID of its PodGroup or, for a lone pod, the UID of the pod.
func (s *groupState) id(pod types.UID) string {
	if s.podGroup != nil {
		return string(s.podGroup.UID)
	}
	return string(pod)
}

// Unclaim leaves an assignment to a later scheduling cycle
// of the pod, because the current cycle cannot take it up.
func (g Matching) Unclaim(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil && m.assignment != nil && !m.assignment.reserved {
		m.assignment.claimed = false
	}
}

// addExpected adds the stand-ins for which the group may have seats to the required pods of a Plan.
func (g Matching) addExpected(p *Plan, s *groupState, expected map[string]int, now time.Time) {
	var all []standIn
	all, p.Note = g.boundSeats(s, expected, now)
	p.addStandIns(all)
}
