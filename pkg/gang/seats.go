package gang

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
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
	ExpectRules
}

// A seat is a slot that is held for an expected pod.
type seat struct {
	template string
	job      match.JobID
	slot     match.Slot
	// pod is the pod as it is expected, and demand what it asks for. A seat is for pods of any priority.
	pod    *corev1.Pod
	demand demand
}

func (r *rules) newSeat(e standIn, job match.JobID, slot match.Slot) *seat {
	d := r.demandOfPod(e.pod)
	d.priority = math.MaxInt32
	return &seat{template: e.template, job: job, slot: slot, pod: e.pod, demand: d}
}

func (t *seat) place() place { return place{t.template, t.slot.Node} }

// A seatState is the seats of a group's incarnation.
type seatState struct {
	// free are the seats that no pod has taken.
	free []*seat
	// freshSeats is true if all free seats are of a later stage, which has begun since ExpireSeats was called.
	freshSeats bool
	// heldSince is when the group started or, with seats of a later stage, when that began. awaitedSince is since when nothing but the owner is missing.
	// Both are zero if that is not so, or not known.
	heldSince, awaitedSince time.Time
	// whyMissing says which pods did not come while they had seats. It is empty if there are none.
	whyMissing string
	seatRecord
	seatSearch
	// note says why the group has not got all the seats that it asks for. It is empty if it has.
	note string
	// seenSince is since when the seats are held, also before the start, as settleSeats has seen it.
	seenSince time.Time
	// reportedExpectation is the expectation in the last report of Placed.
	reportedExpectation Expectation
}

// hasSeat reports whether a free seat of a template is held, or looked for.
func hasSeat(s *groupState, template string) bool {
	return s.sought[template] > 0 || slices.ContainsFunc(s.free, func(t *seat) bool { return t.template == template })
}

// holdSeats gives a group seats, by the slots of a match. If it gets none, and the PodGroup's status still
// shows those of an earlier incarnation, the status has to be written all the same.
func (r *registry) holdSeats(s *groupState, seats []*seat) {
	stale := s.podGroup != nil && (len(s.podGroup.Seats) > 0 || s.podGroup.ExpectedMissing != "")
	if len(seats) > 0 || stale || len(s.recorded) > 0 {
		s.seatState = seatState{free: seats, seatRecord: seatRecord{recorded: s.recorded, version: s.version + 1, writtenVersion: s.writtenVersion}}
	}
	r.indexSeats(s)
}

// addSeats gives a started group further seats, by the slots of a match.
func (r *registry) addSeats(s *groupState, seats []*seat) {
	for _, t := range seats {
		s.free = append(s.free, t)
		if s.left != nil {
			s.left[t.place()]++
		}
		s.version++
	}
	r.indexSeats(s)
}

// addStageSeats gives a started group seats of a stage that has begun. If it has no others, their time begins now.
func (g Matching) addStageSeats(s *groupState, seats []*seat) {
	if len(s.free) == 0 && len(seats) > 0 {
		s.freshSeats, s.seenSince, s.awaitedSince = true, time.Time{}, time.Time{}
	}
	g.addSeats(s, seats)
}

// leaveSmallSeat gives back the seat of a member that was matched because it asks for more.
func (g Matching) leaveSmallSeat(m *member, p Plan) {
	if p.InsteadOf == nil {
		return
	}
	s := m.group
	s.free = slices.DeleteFunc(s.free, func(t *seat) bool {
		if t.job != p.InsteadOf.ID || t.slot.Key != p.InsteadOf.Slots[0].Key {
			return false
		}
		g.releaseSeat(s, t)
		g.noteGivenBack(s, 1, fmt.Sprintf("pod %s asks for more than its template, and was matched anew", m.pod.Name))
		return true
	})
}

// HoldsSeat reports whether a group holds a seat, or a pod of it has taken the seat.
func (g Seats) HoldsSeat(key types.NamespacedName, job match.JobID, id string) bool {
	for _, j := range g.SeatSlots(key) {
		if j.ID == job && slices.ContainsFunc(j.Slots, func(slot match.Slot) bool { return slot.Key == id }) {
			return true
		}
	}
	return false
}

// endSeats ends the seats of an incarnation. If the PodGroup's status shows some, it has to be written.
func (g *core) endSeats(s *groupState, why string) {
	shown := len(s.recorded) > 0 || s.whyMissing != "" || s.isUnrecorded() || len(s.sought) > 0 || s.podGroup != nil && s.podGroup.SeatsTaken != ""
	g.giveBackSeats(s, why, nil)
	r := seatRecord{version: s.version, writtenVersion: s.version}
	if shown {
		r.version++
	}
	s.seatState = seatState{seatRecord: r}
	g.indexSeats(s)
}

// indexSeats brings the index of groups with seats up to date.
func (r *registry) indexSeats(s *groupState) {
	setIndexed(r.seatedGroups, s, len(s.free) > 0 || len(s.sought) > 0 || s.isUnrecorded())
}

// giveBackSeats releases free seats of a group. keep says how many of a template stay. Nil keeps none, and
// ends the search for others.
func (g *core) giveBackSeats(s *groupState, why string, keep func(template string) int) {
	kept, n := map[string]int{}, 0
	s.free = slices.DeleteFunc(s.free, func(t *seat) bool {
		if kept[t.template]++; keep != nil && kept[t.template] <= keep(t.template) {
			return false
		}
		g.releaseSeat(s, t)
		n++
		return true
	})
	if keep == nil {
		if len(s.sought) > 0 {
			s.version++
		}
		s.seatSearch = seatSearch{}
	}
	if n > 0 {
		g.noteGivenBack(s, n, why)
	}
	g.noteUnused(s, n)
	g.indexSeats(s)
}

// releaseSeat releases a seat. The caller removes it from the free ones.
func (g *core) releaseSeat(s *groupState, t *seat) {
	g.out.release(t.job, t.slot.Key)
	if s.left[t.place()] > 0 {
		s.left[t.place()]--
	}
}

// noteGivenBack records that seats were given back.
func (g *core) noteGivenBack(s *groupState, n int, why string) {
	switch {
	case s.started || len(s.recorded) > 0:
		s.version++
	default:
		s.writtenVersion = s.version // nothing was recorded
	}
	g.out.transition(Transition{Type: SeatsGivenBack, Key: s.key, Pods: n, Reason: why})
}

// awaitsStage reports whether a started group goes on although it has no pod on a node: seats are held
// for a later stage, and pods of an earlier one have succeeded.
func awaitsStage(s *groupState) bool {
	if !s.started || s.podGroup == nil || s.podGroup.Ended || len(s.free) == 0 {
		return false
	}
	later := slices.ContainsFunc(templatesOf(s), func(t Template) bool { return t.Stage > 0 && hasSeat(s, t.Name) })
	return later && s.first(func(m *member) bool {
		return m.pod.Status.Phase == corev1.PodSucceeded && m.pod.DeletionTimestamp == nil
	}) != nil
}

// takeSeats gives free seats to members that wait. A member takes a seat of its template that covers what
// it asks for. It returns the pods that have got a seat.
func (g *core) takeSeats(s *groupState, now time.Time) []*corev1.Pod {
	if len(s.free) == 0 || !s.started {
		return nil
	}
	var taken []*corev1.Pod
	// tooLarge has, by template, what a member asked for that no seat covers. Others may ask for as much.
	tooLarge := map[string]demand{}
	for _, m := range s.ordered(func(m *member) bool { return m.isWaiting() && m.assignment == nil && !m.seatless }) {
		template, asks := group.TemplateOf(m.pod), g.demandOf(m)
		if d, is := tooLarge[template]; is && asks.covers(d) {
			continue
		}
		i := slices.IndexFunc(s.free, func(t *seat) bool { return t.template == template && t.demand.covers(asks) })
		if i < 0 {
			tooLarge[template] = asks
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
		g.noteTaken(s, m, t)
	}
	if len(taken) > 0 {
		g.recompute(s)
	}
	g.indexSeats(s)
	return taken
}

// seatTooSmall returns a free seat of a member's template, if the member asks for more than each of them.
// It is for a member that takeSeats has left without one.
func seatTooSmall(m *member) *seat {
	if !m.group.started || m.seatless {
		return nil
	}
	i := slices.IndexFunc(m.group.free, func(t *seat) bool { return t.template == group.TemplateOf(m.pod) })
	if i < 0 {
		return nil
	}
	return m.group.free[i]
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
	t := m.assignment.seat
	m.group.free = append(m.group.free, t)
	if m.group.seen[t.place()] > 0 {
		m.group.seen[t.place()]--
	}
	m.whyRevoked = why
	g.unassign(m)
	g.indexSeats(m.group)
}

// ExpireSeats gives back the seats of groups that have expected pods for too long. A scheduler that does
// not lead must not call it: it follows what the leader records.
func (g Seats) ExpireSeats(now time.Time) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.seatedGroups {
		if !s.started || len(s.free)+len(s.sought) == 0 {
			continue
		}
		if s.heldSince.IsZero() {
			s.heldSince = firstBind(s, now)
		}
		if s.freshSeats {
			s.freshSeats, s.heldSince = false, now
		}
		switch {
		case !isAwaited(s):
			s.awaitedSince = time.Time{}
		case s.awaitedSince.IsZero():
			s.awaitedSince = lastChange(s, now)
		}
		timeout, total, _ := g.expectTimes(s)
		var why string
		switch {
		case now.Sub(s.heldSince) >= total:
			why = fmt.Sprintf("their pods did not come within %s of the start", total)
		case !s.awaitedSince.IsZero() && now.Sub(s.awaitedSince) >= timeout:
			why = fmt.Sprintf("their pods did not come within %s after the others were there", timeout)
		default:
			g.reportExpectation(s)
			continue
		}
		s.whyMissing = describeMissing(s, why)
		g.giveBackSeats(s, why, nil)
		s.version++
		g.recompute(s)
	}
	g.settleSeats(now)
	return g.output()
}

// describeMissing says which pods of a group did not come, and why no room is held for them.
func describeMissing(s *groupState, why string) string {
	var all []string
	for _, t := range templatesOf(s) {
		if n := openSeats(s, t); n > 0 && hasSeat(s, t.Name) {
			all = append(all, fmt.Sprintf("%s of template %s", reason.Plural(n, "pod"), t.Name))
		}
	}
	text := fmt.Sprintf("no room is held any more for %s: %s", strings.Join(all, ", "), why)
	if s.podGroup != nil && s.podGroup.WhyNotExpected != "" {
		text += "; " + s.podGroup.WhyNotExpected
	}
	return text
}

// isAwaited reports whether nothing but the owner is missing for some of the expected pods to come.
func isAwaited(s *groupState) bool {
	return slices.ContainsFunc(templatesOf(s), func(t Template) bool { return hasSeat(s, t.Name) && isDue(s, t) })
}

// isDue reports whether the owner of a group may make the expected pods of a template: the templates
// before it are complete and ready, its leader has a node, or the stages before its own have ended.
func isDue(s *groupState, t Template) bool {
	s.update()
	before := true
	for _, o := range templatesOf(s) {
		before = before && o.Name != t.Name
		switch {
		case o.Stage < t.Stage && s.templates[o.Name].active > 0:
			return false
		case o.Stage != t.Stage:
		case t.AfterReady && before:
			if hasSeat(s, o.Name) || s.first(func(m *member) bool {
				return m.counted.template == o.Name && m.counted.ofTemplate.all > 0 && !isTerminal(m.pod) && (!m.keepsNode() || !isReady(m.pod))
			}) != nil {
				return false
			}
		case !t.AfterReady && o.Name == t.Leader:
			if s.first(func(m *member) bool { return m.counted.template == o.Name && m.isPlaced() }) == nil {
				return false
			}
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

// sinceTrue returns since when a condition of a pod is true, or zero if it is not.
func sinceTrue(pod *corev1.Pod, of corev1.PodConditionType) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == of && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// firstBind returns when the first pod was bound of a group that has seats or, with seats of a later stage that
// were not held with the first, of that stage. If this process has matched the group, that is now. Otherwise the
// API says it, at most now.
func firstBind(s *groupState, now time.Time) time.Time {
	first := now
	if !s.matchedHere {
		stages := map[string]int{}
		for _, t := range templatesOf(s) {
			stages[t.Name] = t.Stage
		}
		stage := stageOf(s)
		for i, t := range s.free {
			if of := stages[t.template]; i == 0 || of < stage {
				stage = of
			}
		}
		for _, m := range s.members {
			if stages[group.TemplateOf(m.pod)] != stage && !asksTogether(s, m) {
				continue
			}
			if at := sinceTrue(m.pod, corev1.PodScheduled); !at.IsZero() && m.keepsNode() && at.Before(first) {
				first = at
			}
		}
	}
	return first
}

// lastChange returns when the last pod of a group was bound or became ready. If this process has matched
// the group, that is now. Otherwise the API says it, at most now.
func lastChange(s *groupState, now time.Time) time.Time {
	var last time.Time
	if !s.matchedHere {
		for _, m := range s.members {
			if m.keepsNode() {
				last = later(last, later(sinceTrue(m.pod, corev1.PodScheduled), sinceTrue(m.pod, corev1.PodReady)))
			}
		}
	}
	if last.IsZero() || last.After(now) {
		return now
	}
	return last
}
