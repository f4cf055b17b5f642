package gang

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

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

	// Rank is the place of the pod in the queue, and Late says that its group has
	// started and the pod comes later.
	Rank Rank
	Late bool
	// InTurnFrom is the place that a group which has not started has among those that wait for
	// room, where it goes by time, or a pod that takes the place of another: see Head.
	InTurnFrom time.Time
	// Lacking is how many members a group that has started has too few, if the pod takes the
	// place of one of them. Optional are others that do so then.
	Lacking int
	// Left are the nodes on which those stood whose places the pods take; an empty name is that it
	// is not known of one.
	Left []string

	uid    types.UID
	events [numEvents]uint64
	// complete is since when the group could be asked for, and podGroup the UID of its
	// PodGroup then.
	complete time.Time
	podGroup types.UID
}

// Plan says what to ask for, for a pod whose scheduling cycle begins. The Output
// is to be carried out first: a cycle that begins while the pod's seat is taken
// up means that the cycle before ended without a word.
func (g *Groups) Plan(uid types.UID, now time.Time) (Plan, Output) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.plan(uid, now)
	return p, g.output()
}

func (g *Groups) plan(uid types.UID, now time.Time) Plan {
	m := g.members[uid]
	if m == nil {
		return Plan{Wait: Verdict{Reason: reason.NotSeenYet, Message: "the pod was not seen yet"}}
	}
	s := m.group
	if m.seat != nil && m.seat.tried && !m.seat.reserved {
		g.unseat(m, "an earlier attempt ended with an error")
		g.settle(s)
	}
	if m.seat != nil {
		m.seat.tried = true
		return Plan{Node: m.seat.slot.Node}
	}
	if v := g.admit(m, now); !v.Pass {
		if v.Message == "" {
			v.Message = "waits for the group's representative"
		}
		return Plan{Wait: v}
	}
	p := Plan{Key: s.key, Holder: s.key.String(), uid: uid, events: g.events, Rank: g.rank(m), Late: s.started}
	replaces := m.replaces()
	switch {
	case replaces:
		p.Lacking, p.InTurnFrom = s.lacking(), m.since()
	case s.started:
		// It may have come into the queue while it replaced another.
		p.Rank = p.Rank.notBefore(m.since())
	default:
		// Or in the incarnation before.
		p.Rank = p.Rank.notBefore(s.creation(m))
		p.InTurnFrom = s.inTurnFrom(m)
	}
	p.Policy = g.policyFor(m)
	p.Topology = s.asked().topology
	for _, sibling := range s.ordered(func(o *member) bool { return o != m && o.present() }) {
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
			p.Left = []string{m.place.node}
		}
		for _, o := range s.ordered(func(o *member) bool {
			return o != m && o.late(now) && o.priority() >= m.priority() && (o.place != nil || !replaces)
		}) {
			p.Optional = append(p.Optional, o.pod)
			if replaces {
				p.Left = append(p.Left, o.place.node)
			}
		}
		return p
	}
	p.Job = g.nextJob(s.id(uid))
	s.need, p.complete = s.minimum(), s.complete
	// The representative asks, so it is among those that must be placed. Who has a lower priority
	// follows by that, when the group has started.
	waiting := s.ordered(func(o *member) bool { return o != m && o.waits() && o.priority() >= m.priority() })
	p.Required = append(p.Required, m.pod)
	for _, o := range waiting {
		if len(p.Required) < s.need {
			p.Required = append(p.Required, o.pod)
		} else {
			p.Optional = append(p.Optional, o.pod)
		}
	}
	return p
}

// nextJob returns the id of a match, for a group or a member of one by its UID.
func (g *Groups) nextJob(uid string) match.JobID {
	g.attempts++
	return match.NewJobID("match", uid, strconv.FormatUint(g.attempts, 10))
}

// Pod is the UID of the pod that asks.
func (p Plan) Pod() types.UID { return p.uid }

func (m *member) node() string {
	if m.pod.Spec.NodeName != "" {
		return m.pod.Spec.NodeName
	}
	return m.seat.slot.Node
}

// id names the group across namespaces and lives: by its PodGroup's UID or, for
// a lone pod, its own.
func (s *state) id(pod types.UID) string {
	if s.podGroup != nil {
		return string(s.podGroup.UID)
	}
	return string(pod)
}

// Seat records what a match gave, by slot keys that are pod UIDs, and returns
// the node of the pod that asked and the siblings to put into the queue. The
// seats are lost at the deadline. Slots of pods that left meanwhile come back in
// the Output; if too few are left for the group, all do.
func (g *Groups) Seat(p Plan, slots []match.Slot, deadline time.Time) (node string, siblings []*corev1.Pod, out Output, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	node, siblings, err = g.seat(p, slots, deadline)
	return node, siblings, g.output(), err
}

func (g *Groups) seat(p Plan, slots []match.Slot, deadline time.Time) (node string, siblings []*corev1.Pod, err error) {
	asker := g.members[p.uid]
	if asker == nil || !asker.waits() || asker.group.key != p.Key || asker.group.started != p.Late {
		g.out.release(p.Job)
		return "", nil, fmt.Errorf("pod left group %s during the match", p.Key)
	}
	s := asker.group
	seated := 0
	for place, slot := range slots {
		m := g.members[types.UID(slot.Key)]
		if m == nil || m.group != s || !m.waits() || m.seat != nil {
			g.out.release(p.Job, slot.Key)
			continue
		}
		m.seat = &seat{job: p.Job, slot: slot, deadline: deadline}
		if p.InOrder {
			m.seat.place = place + 1
		}
		m.refusal, m.no, m.refused, m.letPass = nil, nil, 0, false
		seated++
		if m == asker {
			m.seat.tried = true
			node = slot.Node
		} else {
			siblings = append(siblings, m.pod)
		}
	}
	why := s.overtaken(p, seated, node != "")
	switch {
	case node == "" && p.Late:
		// Not unseatAll: the siblings' seats are none of this match.
		return "", nil, fmt.Errorf("the match gave the pod that asked nothing")
	case why != "":
		g.unseatAll(s, why)
		g.settle(s)
		return "", nil, fmt.Errorf("group %s changed during the match: %s", p.Key, why)
	}
	if !p.Late {
		s.fenced, s.matched = WholeNo, true
		if match.TakesWhole(p.Policy) {
			s.fenced = WholeYes
		}
		s.refusal, s.refused, s.complete = nil, 0, p.complete
		if pg := s.podGroup; pg != nil && pg.UID != p.podGroup && pg.Created.After(s.complete) {
			// Another PodGroup of this name came during the match: its own wait began then.
			s.complete = pg.Created
		}
	}
	g.settle(s)
	// Late members of another shape, and those that found no room, ask next.
	g.out.wake(s.key)
	return node, siblings, nil
}

// overtaken says what has happened during a match so that the group may not start with
// so many seats, that of the pod that asked among them; nothing if it may.
func (s *state) overtaken(p Plan, seated int, asker bool) string {
	if p.Late {
		return ""
	}
	s.need = s.minimum()
	switch {
	case s.gang && s.podGroup == nil:
		return "the PodGroup was deleted"
	case asker && seated >= s.need:
		return ""
	case asker && seated >= len(p.Required):
		return "minMember of the PodGroup was raised"
	}
	return "a member of the group was deleted"
}

// Refuse records that a plan found no room: for the group, or for the late member
// that asked and those of the others that r names. An event that happened during
// the match counts as one after it.
func (g *Groups) Refuse(p Plan, r Refusal, now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out.refused(p.Required[0], r.Reason, r.Message)
	// The refusal may run out by itself, or by what happened during the match; and
	// of a started group those of another shape may ask.
	g.out.wake(p.Key)
	m := g.members[p.uid]
	if m == nil {
		return g.output()
	}
	mems := []*refusal{g.refuse(m, r, now)}
	for _, uid := range r.Likewise {
		if o := g.members[uid]; m.group.started && o != nil && o != m && o.group == m.group && o.late(now) {
			mems = append(mems, g.refuse(o, r, now))
		}
	}
	for ev := range numEvents {
		if g.events[ev] != p.events[ev] {
			for _, mem := range mems {
				mem.after(ev)
			}
		}
	}
	g.settle(m.group)
	return g.output()
}

// refuse takes note of a refusal of a member, or with it of its group.
func (g *Groups) refuse(m *member, r Refusal, now time.Time) *refusal {
	// It is asked anew before it comes into the queue again.
	m.letPass = false
	if s := m.group; !s.started {
		g.wait(s, r, now)
		return s.refuse(r, g.rank(m), now)
	}
	if m.replaces() {
		// It goes before all others, so it is not to come later than they.
		m.refused = 0
	}
	m.no = &r
	return m.refuse(r, g.rank(m), now)
}
