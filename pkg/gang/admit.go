package gang

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// A Verdict says whether a pod may enter the scheduling queue.
type Verdict struct {
	Pass bool
	// Reason and Message say why not. Both are empty where a pod only waits for
	// its group's representative.
	Reason  string
	Message string
	// Asks is for how many pods one that passes is to ask, where its group may wait for its
	// turn: it is 0 for a pod with a seat, and for one that takes the place of a member which its started group lacks.
	Asks int
	// Key is the group's, and Rank the pod's place in the queue, where a pod passes that is to
	// ask. Both are zero for a pod with a seat.
	Key  types.NamespacedName
	Rank Rank
	// Lost is the job of a seat that a scheduling cycle took up before it ended
	// without a word: the caller is to give the seat back by Abandon. It is 0 where
	// there is none.
	Lost match.JobID
}

// Admit decides on a pod that wants to enter the queue. It changes nothing but
// the choice of a representative, the place of those that pass, and since when a group
// could be asked for.
func (g *Groups) Admit(uid types.UID, now time.Time) Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil {
		return Verdict{Reason: reason.NotSeenYet, Message: "the pod was not seen yet"}
	}
	v := g.admit(m, now)
	if !v.Pass {
		return v
	}
	m.created = m.group.creation(m)
	if m.urgent = m.replaces(); m.seat == nil {
		m.extra = m.group.started && !m.urgent
	}
	rank := g.rank(m)
	g.queue.set(uid, rank)
	if m.seat != nil {
		return v
	}
	v.Key, v.Rank = m.group.key, rank
	if !m.urgent {
		v.Asks = m.group.asking(now)
	}
	return v
}

// asking counts the members that are asked for together.
func (s *state) asking(now time.Time) int {
	if s.started {
		return s.count(func(m *member) bool { return m.late(now) })
	}
	return s.count((*member).waits)
}

// MayAsk says whether a group may ask for nodes now, as far as it goes itself.
func (g *Groups) MayAsk(key types.NamespacedName, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.unseated[key]
	return s != nil && len(g.admissible(nil, s, now)) > 0
}

// LetPass takes note of whether the other plugins let a pod pass that asks for its group. The
// scheduler asks plugins in any order, and none after one that holds the pod: of a pod for
// which this was never said nothing is known, and it counts as held.
func (g *Groups) LetPass(uid types.UID, passes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil {
		m.letPass = passes
	}
}

// An Asker is a namespace of which groups may ask for nodes.
type Asker struct {
	Namespace string
	// Priority is the highest of such a group.
	Priority int32
}

// Askers lists the namespaces of which groups may ask for nodes now, those with the highest
// priority first. It looks at all groups that wait. One whose pods another plugin keeps out of the
// queue does not ask.
func (g *Groups) Askers(now time.Time) []Asker {
	g.mu.Lock()
	defer g.mu.Unlock()
	highest := map[string]int32{}
	var one []*corev1.Pod
	for _, s := range g.unseated {
		one = slices.DeleteFunc(g.admissible(one[:0], s, now), func(pod *corev1.Pod) bool { return !g.members[pod.UID].letPass })
		if len(one) == 0 {
			continue
		}
		p := rankOf(one[0]).Priority
		if h, there := highest[s.key.Namespace]; !there || p > h {
			highest[s.key.Namespace] = p
		}
	}
	all := make([]Asker, 0, len(highest))
	for namespace, p := range highest {
		all = append(all, Asker{namespace, p})
	}
	slices.SortFunc(all, func(a, b Asker) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Namespace, b.Namespace))
	})
	return all
}

func (g *Groups) admit(m *member, now time.Time) Verdict {
	s := m.group
	switch {
	case m.seat != nil:
		// A pod comes here only when no cycle is under way for it. A seat that a
		// cycle took up and did not reserve was lost with that cycle.
		if m.seat.tried && !m.seat.reserved {
			return Verdict{Lost: m.seat.job}
		}
		if !m.turn() {
			return Verdict{Message: "waits for its turn among its siblings"}
		}
		return Verdict{Pass: true}
	case s.started && m.refusal.standsAt(now):
		return Verdict{Reason: m.refusal.Reason, Message: m.refusal.Message}
	case s.started:
		if _, err := s.policyOr("", m); err != nil {
			return Verdict{Reason: reason.InvalidMatchPolicy, Message: err.Error()}
		}
		if err := s.asked().err; err != nil {
			return Verdict{Reason: reason.InvalidTopology, Message: err.Error()}
		}
		if s.fenced == WholeYes {
			if why := g.revoked(s); why != "" {
				return Verdict{Reason: reason.NotAllowed, Message: "the group has whole nodes, and may not have more: " + why}
			}
		}
		return Verdict{Pass: s.chooseLate(now) == m.pod.UID}
	case s.permitted:
		return Verdict{Message: "waits until the group has started"}
	}
	if why, msg := g.incomplete(s); why != "" {
		s.lacked = true
		return Verdict{Reason: why, Message: msg}
	}
	if s.complete.IsZero() {
		s.complete = now
	}
	if s.lacked {
		s.lacked, s.completed = false, now
	}
	if s.refusal.standsAt(now) {
		return Verdict{Reason: s.refusal.Reason, Message: s.refusal.Message}
	}
	return Verdict{Pass: s.choose() == m.pod.UID}
}

// Unclaim leaves a seat to a further scheduling cycle of the pod: this one cannot take
// it up.
func (g *Groups) Unclaim(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[uid]; m != nil && m.seat != nil && !m.seat.reserved {
		m.seat.tried = false
	}
}

// incomplete says why a group that has not started may not ask for resources.
func (g *Groups) incomplete(s *state) (why, message string) {
	if !s.checked {
		s.lacksReason, s.lacksMessage = g.check(s)
		s.checked = true
	}
	return s.lacksReason, s.lacksMessage
}

func (g *Groups) check(s *state) (why, message string) {
	for _, m := range s.members {
		if !m.waits() {
			continue
		}
		if m.unseen != (group.Owner{}) && !s.named {
			return reason.OwnerNotSeen, fmt.Sprintf("waits until %s %s is seen, which controls the pod", m.unseen.Kind, m.unseen.Name)
		}
		if m.fault != nil {
			return m.fault.Reason, m.fault.Message
		}
		if m.badPolicy != nil && (s.podGroup == nil || s.podGroup.Policy == "") {
			return reason.InvalidMatchPolicy, m.badPolicy.Error()
		}
	}
	if err := s.asked().err; err != nil {
		return reason.InvalidTopology, err.Error()
	}
	if s.podGroup != nil {
		if err := group.ValidPolicy(s.podGroup.Policy); err != nil {
			return reason.InvalidMatchPolicy, err.Error()
		}
	}
	for _, m := range s.members {
		if !m.waits() {
			continue
		}
		if why := g.denied(m); why != "" {
			return reason.NotAllowed, why
		}
	}
	if s.podGroup == nil {
		if !s.gang {
			return "", ""
		}
		return reason.NoPodGroup, fmt.Sprintf("waits for PodGroup %s, which does not exist; pods that are to have one made say their number by the label %s", s.key, group.SizeLabel)
	}
	want := int(s.podGroup.MinMember)
	if have := s.count((*member).waits) + s.brought; have < want || len(s.members) == 0 {
		pods := "pods"
		if want-have <= 1 {
			pods = "pod"
		}
		return reason.Gathering, fmt.Sprintf("waits for %d more %s: has %d of minMember %d", max(1, want-have), pods, have, want)
	}
	return "", ""
}

// choose returns the member that asks for all: it stays the same while it waits, so that one group
// stands in the queue once, and while who else waits gives the group no other priority. That is the
// lowest among as many members as the group needs, those of the highest: else one pod of a high
// priority led all others past who is in between. Of those that have it the oldest asks.
func (s *state) choose() types.UID {
	if m := s.members[s.representative]; m == nil || !m.waits() {
		s.representative = ""
		ms := s.ordered((*member).waits)
		if len(ms) == 0 {
			return ""
		}
		priorities := make([]int32, len(ms))
		for i, m := range ms {
			priorities[i] = m.priority()
		}
		slices.Sort(priorities)
		own := priorities[max(0, len(ms)-s.minimum())]
		s.representative = ms[slices.IndexFunc(ms, func(m *member) bool { return m.priority() == own })].pod.UID
	}
	return s.representative
}

func (m *member) priority() int32 { return rankOf(m.pod).Priority }

// chooseLate returns the member of a started group that asks for all that are
// late, first one that takes the place of another: it stays the same until it has a seat
// or is refused one.
func (s *state) chooseLate(now time.Time) types.UID {
	m := s.members[s.representative]
	if m != nil && !m.late(now) {
		m = nil
	}
	if m == nil || m.place == nil {
		m = s.claimant(m, now)
	}
	if m == nil {
		m = s.first(func(m *member) bool { return m.late(now) })
	}
	s.representative = ""
	if m != nil {
		s.representative = m.pod.UID
	}
	return s.representative
}

// claimant returns the oldest late member that waits for a place, or else the given one.
func (s *state) claimant(or *member, now time.Time) *member {
	var first *member
	for _, m := range s.claimants {
		if m.late(now) && (first == nil || older(m, first) < 0) {
			first = m
		}
	}
	if first == nil {
		return or
	}
	return first
}

// Waiting is a group, or a lone pod, that could not ask for anything yet.
type Waiting struct {
	Key types.NamespacedName
	// Reason and Message say what it lacks; both are empty if it may ask.
	Reason  string
	Message string
	// Pod is one of its pods; nil if it has none.
	Pod *corev1.Pod
}

// Waiting lists the groups of which no member has a seat, and that were not
// refused.
func (g *Groups) Waiting() []Waiting {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []Waiting
	for _, s := range g.unseated {
		if s.started || s.refusal != nil {
			continue
		}
		why, msg := g.incomplete(s)
		w := Waiting{Key: s.key, Reason: why, Message: msg}
		if m := s.members[s.choose()]; m != nil {
			w.Pod = m.pod
		}
		all = append(all, w)
	}
	return all
}

// Unclaimed lists the pods with a seat that no scheduling cycle took up yet. To
// put them into the queue again does no harm, where they may have been missed.
func (g *Groups) Unclaimed() []*corev1.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	var pods []*corev1.Pod
	for _, s := range g.seated {
		for _, m := range s.members {
			if m.seat != nil && !m.seat.tried && m.waits() {
				pods = append(pods, m.pod)
			}
		}
	}
	return pods
}

// Seated says whether a pod has a seat.
func (g *Groups) Seated(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	return m != nil && m.seat != nil
}
