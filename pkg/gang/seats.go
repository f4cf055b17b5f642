package gang

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
)

// Seats is the role that holds room for pods that are expected: pods that their owner makes only after
// others of the group have nodes or are ready. They are matched together with the others.
type Seats struct{ *core }

// SeatRules say for how long seats are held.
type SeatRules struct {
	// ExpectTimeout is how long seats are held while nothing but the owner of the pods is missing.
	// It begins anew with each pod that takes a seat.
	ExpectTimeout time.Duration
	// ExpectTotal is how long seats are held from the start of their group.
	ExpectTotal time.Duration
	// ScheduleTimeout is the time in which a pod that has taken a seat has to be bound, unless its
	// PodGroup has another.
	ScheduleTimeout time.Duration
	// SlotOf returns the slot that a pod would hold on a node.
	SlotOf func(pod *corev1.Pod, node string) match.Slot
}

// A seat is a slot that is held for an expected pod.
type seat struct {
	template string
	job      match.JobID
	slot     match.Slot
	demand   demand
}

// A seatState is the seats of a group's incarnation.
type seatState struct {
	// free are the seats that no pod has taken.
	free []*seat
	// unrecorded is true while the PodGroup's status lacks the seats. No pod of the group is bound then.
	unrecorded bool
	// heldSince is when the group started. awaitedSince is since when nothing but the owner is missing.
	// Both are zero if that is not so, or not known.
	heldSince, awaitedSince time.Time
	// givenBack is why seats were given back. It is empty if none were.
	givenBack string
	// reportedExpectation is the expectation in the last report of Placed.
	reportedExpectation Expectation
}

// RecordedSeats is how many pods of each template have a seat or an assignment on each node, by
// template and node, as a PodGroup's status records it when the group starts.
type RecordedSeats map[string]map[string]int

// hold gives a group seats, by the slots of a match.
func (g *core) holdSeats(s *groupState, seats []*seat) {
	s.seatState = seatState{free: seats, unrecorded: true}
	g.indexSeats(s)
}

// indexSeats brings the index of groups with seats up to date.
func (g *core) indexSeats(s *groupState) { setIndexed(g.seatedGroups, s, len(s.free) > 0) }

// giveBackSeats releases free seats of a group. keep says how many of a template stay. Nil keeps none.
func (g *core) giveBackSeats(s *groupState, why string, keep func(template string) int) {
	kept, n := map[string]int{}, 0
	s.free = slices.DeleteFunc(s.free, func(t *seat) bool {
		if kept[t.template]++; keep != nil && kept[t.template] <= keep(t.template) {
			return false
		}
		g.out.release(t.job, t.slot.Key)
		n++
		return true
	})
	if n > 0 {
		s.givenBack = why
	}
	g.indexSeats(s)
}

// takeSeats gives free seats to members that wait. A member takes a seat of its template that covers
// what it asks for. If it asks for more, the largest seat of its template is given back, and the
// member is placed as any other late member. takeSeats returns the pods that have got a seat.
func (g *core) takeSeats(s *groupState, now time.Time) []*corev1.Pod {
	if len(s.free) == 0 || !s.started {
		return nil
	}
	var taken []*corev1.Pod
	for _, m := range s.ordered(func(m *member) bool { return m.isWaiting() && m.assignment == nil && !m.seatless }) {
		of := func(t *seat) bool { return t.template == group.TemplateOf(m.pod) }
		i := slices.IndexFunc(s.free, func(t *seat) bool { return of(t) && t.demand.covers(g.demandOf(m)) })
		if i < 0 {
			if i = slices.IndexFunc(s.free, of); i >= 0 {
				m.seatless = true
				t := s.free[i]
				s.free = slices.Delete(s.free, i, i+1)
				g.out.release(t.job, t.slot.Key)
				s.givenBack = fmt.Sprintf("pod %s asks for more than its template", m.pod.Name)
			}
			continue
		}
		t := s.free[i]
		s.free = slices.Delete(s.free, i, i+1)
		timeout := g.seatRules.ScheduleTimeout
		if s.podGroup != nil && s.podGroup.Timeout > 0 {
			timeout = s.podGroup.Timeout
		}
		g.setAssignment(m, &assignment{job: t.job, slot: t.slot, deadline: now.Add(timeout), seat: t})
		m.refusal, m.lastRefusal, m.refusalCount, m.passedOtherPlugins = nil, nil, 0, false
		s.changed(m)
		s.awaitedSince = time.Time{}
		taken = append(taken, m.pod)
	}
	if len(taken) > 0 {
		g.recompute(s)
	}
	g.indexSeats(s)
	return taken
}

// leaveSeat makes the seat of a member that has gone, and was not bound, free again: its owner makes
// another pod. It does nothing if the member has taken no seat.
func (g *core) leaveSeat(m *member, why string) {
	if m.assignment == nil || m.assignment.seat == nil || !m.group.started || m.hasNode() || m.assignment.bound {
		return
	}
	if m.assignment.reserved {
		g.out.reject(m.pod.UID, why)
	}
	m.group.free = append(m.group.free, m.assignment.seat)
	m.whyRevoked = why
	g.unassign(m)
	g.indexSeats(m.group)
}

// ExpireSeats gives back the seats of groups that have expected pods for too long.
func (g Seats) ExpireSeats(now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.seatedGroups {
		if !s.started {
			continue
		}
		if s.heldSince.IsZero() {
			s.heldSince = now
		}
		switch {
		case !g.isAwaited(s):
			s.awaitedSince = time.Time{}
		case s.awaitedSince.IsZero():
			s.awaitedSince = now
		}
		switch {
		case now.Sub(s.heldSince) >= g.seatRules.ExpectTotal:
			g.giveBackSeats(s, fmt.Sprintf("their pods did not come within %s of the start", g.seatRules.ExpectTotal), nil)
		case !s.awaitedSince.IsZero() && now.Sub(s.awaitedSince) >= g.seatRules.ExpectTimeout:
			g.giveBackSeats(s, fmt.Sprintf("their pods did not come within %s after the others were there", g.seatRules.ExpectTimeout), nil)
		default:
			g.reportExpectation(s)
			continue
		}
		g.recompute(s)
	}
	return g.output()
}

// isAwaited reports whether nothing but the owner is missing for the expected pods to come.
func (g *core) isAwaited(s *groupState) bool {
	if s.number(unassignedMembers) > 0 || s.number(unboundMembers) > 0 {
		return false
	}
	for _, t := range templatesOf(s) {
		if t.AfterReady && slices.ContainsFunc(s.free, func(f *seat) bool { return f.template == t.Name }) {
			return s.first(func(m *member) bool { return m.keepsNode() && !isReady(m.pod) }) == nil
		}
	}
	return true
}

// isReady reports whether a pod has the condition Ready.
func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// SeatsToRecord returns what a PodGroup's status has to record before a pod of the group is bound. It
// returns nil if there is nothing to record.
func (g Seats) SeatsToRecord(key types.NamespacedName) RecordedSeats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || !s.unrecorded {
		return nil
	}
	r := RecordedSeats{}
	add := func(template, node string) {
		if r[template] == nil {
			r[template] = map[string]int{}
		}
		r[template][node]++
	}
	for _, t := range s.free {
		add(t.template, t.slot.Node)
	}
	for _, m := range s.members {
		if m.isPresent() {
			add(group.TemplateOf(m.pod), m.node())
		}
	}
	return r
}

// SeatsRecorded records that the PodGroup's status has the seats of a group.
func (g Seats) SeatsRecorded(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil {
		s.unrecorded = false
	}
}

// restoreSeats gives a started group, which another process has matched, the seats that its PodGroup's
// status records and that no member has taken. No more are restored than pods are expected.
func (g *core) restoreSeats(s *groupState) {
	if !s.started || s.matchedHere || len(s.free) > 0 || s.podGroup == nil || len(s.podGroup.Seats) == 0 || g.seatRules.SlotOf == nil {
		return
	}
	on := map[string]map[string]int{}
	for _, m := range s.members {
		if m.isPresent() {
			name := group.TemplateOf(m.pod)
			if on[name] == nil {
				on[name] = map[string]int{}
			}
			on[name][m.node()]++
		}
	}
	job := match.NewJobID("seats", s.id(""))
	byTemplate := map[string][]standIn{}
	for _, e := range standIns(s) {
		byTemplate[e.template] = append(byTemplate[e.template], e)
	}
	for name, expected := range byTemplate {
		for _, node := range slices.Sorted(maps.Keys(s.podGroup.Seats[name])) {
			for range s.podGroup.Seats[name][node] - on[name][node] {
				if len(expected) == 0 {
					break
				}
				e := expected[0]
				expected = expected[1:]
				slot := g.seatRules.SlotOf(e.pod, node)
				slot.Key = string(e.pod.UID)
				s.free = append(s.free, &seat{template: name, job: job, slot: slot, demand: g.demandOfPod(e.pod)})
			}
		}
	}
	g.indexSeats(s)
}

// SeatCounts returns how many seats of a group are free.
func (g Seats) SeatCounts(key types.NamespacedName) (free int, givenBack string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return 0, ""
	}
	return len(s.free), s.givenBack
}
