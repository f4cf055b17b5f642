package gang

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// Matching says what an engine is to be asked for on behalf of a pod, and is told what it
// answered.
type Matching struct{ *core }

// A Plan is what to ask an engine for on behalf of a pod.
type Plan struct {
	// Node is the node of the pod's seat. If it is set there is nothing to ask.
	Node string
	// Wait says why there is nothing to ask for now.
	Wait Verdict

	Key types.NamespacedName
	Job match.JobID
	// Required must be placed together, the pod first among them. Optional may be
	// placed with them, as many as there is room for. None has a lower priority than the pod.
	Required []*corev1.Pod
	Optional []*corev1.Pod
	// Near names the nodes of siblings that are placed already.
	Near []string
	// Timeout is the group's own, 0 if it has none.
	Timeout time.Duration
	// Policy is the group's own or else the default. Holder names the group to an
	// engine, across its matches.
	Policy string
	Holder string
	// Topology says how the group's pods stand together; nil where that does not matter.
	Topology *jobspec.Topology
	// InOrder makes the order of the slots given to Seat the one in which the pods take
	// their seats up.
	InOrder bool

	Precedence
	snapshot
}

// A Standing is the place of a Plan's pod among those that ask, and what it replaces.
type Precedence struct {
	// Rank is the place of the pod in the queue, and Late says that its group has
	// started and the pod comes later.
	Rank Rank
	Late bool
	// EligibleSince counts instead of the creation in Rank, if it is later, where nodes are reserved: of a group that has not
	// started it is when that could first be asked for (see Head), of a pod that takes the place of
	// another when the pod could.
	EligibleSince time.Time
	// Missing is how many members a group that has started has too few, if the pod takes the
	// place of one of them. The Plan's Optional are others that do so then.
	Missing int
	// LostMembers are those whose places the pods take, in the order of the pods.
	LostMembers []LostMember
}

// snapshot is what was so when a Plan was made.
type snapshot struct {
	uid    types.UID
	events [numEvents]uint64
	// completeSince is since when the group could be asked for, and podGroup the UID of its
	// PodGroup then.
	completeSince time.Time
	podGroup      types.UID
}

// Pod is the UID of the pod that asks.
func (p Plan) Pod() types.UID { return p.uid }

// LostMember is what a member has left whose place another takes: its node, empty if that is not known, and
// of its pod the tolerations, nil if the node is not known.
type LostMember struct {
	Node string
	Pod  *corev1.Pod
}

func (p *position) lostMember() LostMember { return LostMember{p.node, p.lastPod} }

// Plan says what to ask for, for a pod whose scheduling cycle begins. The Output
// is to be carried out first: a cycle that begins while the pod's seat is taken
// up means that the cycle before ended without a word.
func (g Matching) Plan(uid types.UID, now time.Time) (Plan, Output) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.plan(uid, now)
	return p, g.output()
}

func (g Matching) plan(uid types.UID, now time.Time) Plan {
	m := g.members[uid]
	if m == nil {
		return Plan{Wait: Verdict{Reason: reason.NotSeenYet, Message: "the pod was not seen yet"}}
	}
	s := m.group
	if m.assignment != nil && m.assignment.claimed && !m.assignment.reserved {
		g.revoke(m, "an earlier attempt ended with an error")
		g.recompute(s)
	}
	if m.assignment != nil {
		m.assignment.claimed = true
		return Plan{Node: m.assignment.slot.Node}
	}
	if v := g.verdict(m, now); !v.Pass {
		if v.Message == "" {
			v.Message = "waits for the group's representative"
		}
		return Plan{Wait: v}
	}
	p := Plan{Key: s.key, Holder: s.key.String(), Precedence: Precedence{Rank: m.rank(), Late: s.started}, snapshot: snapshot{uid: uid, events: g.events}}
	replaces := m.isReplacement()
	switch {
	case replaces:
		p.Missing, p.EligibleSince = s.missing(), m.waitingSince()
	case s.started:
		// It may have come into the queue while it replaced another.
		p.Rank = p.Rank.notBefore(m.waitingSince())
	default:
		// Or in the incarnation before.
		p.Rank = p.Rank.notBefore(s.creation(m))
		p.EligibleSince = s.eligibleSince(m)
	}
	p.Policy = g.policyFor(m)
	p.Topology = s.effectiveTopology().topology
	for _, sibling := range s.ordered(func(o *member) bool { return o != m && o.isPresent() }) {
		p.Near = append(p.Near, sibling.node())
	}
	if s.podGroup != nil {
		p.Timeout, p.podGroup = s.podGroup.Timeout, s.podGroup.UID
	}
	if s.started {
		// The siblings hold their nodes: as many follow as there is room for.
		p.Job = g.nextJob(string(uid))
		p.Required = []*corev1.Pod{m.pod}
		if replaces {
			p.LostMembers = []LostMember{m.position.lostMember()}
		}
		for _, o := range s.ordered(func(o *member) bool {
			return o != m && o.isLate(now) && o.priority() >= m.priority() && (o.position != nil || !replaces)
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
	// The representative asks, so it is among those that must be placed. Who has a lower priority
	// follows by that, when the group has started.
	waiting := s.ordered(func(o *member) bool { return o != m && o.isWaiting() && o.priority() >= m.priority() })
	p.Required = append(p.Required, m.pod)
	for _, o := range waiting {
		if len(p.Required) < s.minReserved {
			p.Required = append(p.Required, o.pod)
		} else {
			p.Optional = append(p.Optional, o.pod)
		}
	}
	return p
}

// nextJob returns the id of a match, for a group or a member of one by its UID.
func (g Matching) nextJob(uid string) match.JobID {
	g.attempts++
	return match.NewJobID("match", uid, strconv.FormatUint(g.attempts, 10))
}

// id names the group across namespaces and lives: by its PodGroup's UID or, for
// a lone pod, its own.
func (s *groupState) id(pod types.UID) string {
	if s.podGroup != nil {
		return string(s.podGroup.UID)
	}
	return string(pod)
}

// Unclaim leaves a seat to a further scheduling cycle of the pod: this one cannot take
// it up.
func (g Matching) Unclaim(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil && m.assignment != nil && !m.assignment.reserved {
		m.assignment.claimed = false
	}
}
