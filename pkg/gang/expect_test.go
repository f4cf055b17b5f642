package gang

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

// bound changes the rules for seats.
func (s *story) bound(change func(*SeatRules)) {
	rules := s.seatRules
	change(&rules)
	s.SetSeatRules(rules)
}

// expecting is a PodGroup of two workers, and n launchers that follow.
func expecting(n int) PodGroup {
	pg := seatedPodGroup()
	pg.Templates.List[1].Expected = n
	pg.Templates.Hash = fmt.Sprint(n)
	return pg
}

// planOf makes a group with a PodGroup and two workers. It returns
// the group's key, and the plan for its first worker.
func (s *story) planOf(namespace, name string, pg PodGroup) (types.NamespacedName, Plan) {
	s.Helper()
	k := types.NamespacedName{Namespace: namespace, Name: name}
	pg.UID = types.UID("pg-" + namespace + name)
	s.PutPodGroup(k, pg)
	for i := range 2 {
		s.add(fmt.Sprintf("%s-%d", name, i), objects.In(namespace), objects.InGroup(name), role("worker"))
	}
	p, _ := s.Plan(types.UID(name+"-0"), s.now)
	return k, p
}

// startOf starts a group with the seats that its plan asks for, each on a node of its own.
func (s *story) startOf(namespace, name string, pg PodGroup) (types.NamespacedName, Plan) {
	s.Helper()
	k, p := s.planOf(namespace, name, pg)
	s.carryOut(k, p)
	s.ExpireSeats(s.now)
	return k, p
}

// carryOut starts a group by its plan.
func (s *story) carryOut(k types.NamespacedName, p Plan) {
	s.Helper()
	var slots []match.Slot
	for _, pod := range p.Required {
		slots = append(slots, match.Slot{Key: string(pod.UID), Node: "n-" + pod.Name})
	}
	if _, _, _, err := s.Assign(p, slots, s.now.Add(time.Minute)); err != nil {
		s.Fatal(err)
	}
	if r := s.SeatsToRecord(k); r != nil {
		s.SeatsRecorded(k, r)
	}
	s.reserveAndBind(k.Name+"-0", k.Name+"-1")
}

// after lets time pass, and returns what has become of seats.
func (s *story) after(d time.Duration) []SeatUse {
	s.now = s.now.Add(d)
	return s.ExpireSeats(s.now).Seats
}

// wantExpected checks how many seats a new group of a namespace asks for. why is in its note, if it is not all.
func (s *story) wantExpected(when, namespace, name string, want int, why string) {
	s.Helper()
	_, p := s.planOf(namespace, name, expecting(1))
	if p.Expected != want || !strings.Contains(p.Note, why) || (why == "") != (p.Note == "") {
		s.Errorf("%s: a group of namespace %s asks for %d seats, with the note %q; want %d, with %q", when, namespace, p.Expected, p.Note, want, why)
	}
}

// A group that may have no seats starts with the pods that are there. Its message says why.
func TestAGroupWithoutSeatsStartsWithTheOthers(t *testing.T) {
	const why = "no room is held for 1 expected pod: it may not"
	s := newSeatStory(t)
	asked := ""
	s.bound(func(r *SeatRules) {
		r.WhyNone = func(namespace, annotation string) string { asked = namespace + " " + annotation; return "it may not" }
	})
	pg := seatedPodGroup()
	pg.Expect.Expect = "yes"
	s.PutPodGroup(key, pg)
	s.add("0", role("worker"))
	s.add("1", role("worker"))
	p, _ := s.Plan("0", s.now)
	if asked != "ns yes" {
		t.Errorf("it was asked about %q", asked)
	}
	if len(p.Required) != 2 || p.Expected != 0 || p.Note != why {
		t.Errorf("the plan requires %v and says %q, want the two workers, and why there are no more", names(p.Required), p.Note)
	}
	out := s.Refuse(p, Refusal{Reason: "NoRoom", Message: "full", RetryOn: []Event{Released}}, s.now)
	if got := out.Refusals[0].Message; got != "full; "+why {
		t.Errorf("the group is told %q", got)
	}
	s.ObserveEvent(Released)
	s.now = s.now.Add(time.Minute)
	s.Due(s.now)
	s.match("0")
	s.reserveAndBind("0", "1")
	for _, name := range []string{"0", "1"} {
		s.update(name, func(p *corev1.Pod) { p.Spec.NodeName = "n-" + name })
	}
	if placed := s.Placed(); len(placed) != 1 || placed[0].SeatNote != why {
		t.Errorf("reported as placed: %+v, want why it has no seats", placed)
	}
	s.add("launcher", role("launcher"), asking("2"))
	if plan, _ := s.Plan("launcher", s.now); !plan.Late || len(plan.Required) != 1 || plan.Note != "" {
		t.Errorf("the launcher's plan: %+v, want that of a late member", plan)
	}
}

// A group asks for no more seats than the quotas of its namespace leave beside those of other groups.
func TestSeatsStayWithinTheQuota(t *testing.T) {
	s := newSeatStory(t)
	var held, expected []string
	text := func(all []PodCount) (list []string) {
		for _, p := range all {
			list = append(list, fmt.Sprintf("%d %s", p.N, p.Pod.Annotations["asks"]))
		}
		return list
	}
	left := 2
	s.bound(func(r *SeatRules) {
		r.WithinQuota = func(namespace string, h, e []PodCount) (int, string) {
			if namespace != "ns" {
				return e[0].N, ""
			}
			held, expected = text(h), text(e)
			return min(left, e[0].N), "the quota says so"
		}
	})
	_, p := s.startOf("ns", "a", expecting(3))
	if p.Expected != 2 || p.Note != "room is held for 2 of 3 expected pods: the quota says so" {
		t.Errorf("%d seats are asked for, with the note %q; want 2 of 3", p.Expected, p.Note)
	}
	if !slices.Equal(expected, []string{"3 2"}) || held != nil {
		t.Errorf("the quota was asked for %q beside %q, want three pods of 2 beside none", expected, held)
	}
	s.startOf("other", "b", expecting(1))
	left = 0
	_, p = s.planOf("ns", "c", expecting(1))
	if p.Expected != 0 || p.Note != "no room is held for 1 expected pod: the quota says so" || len(p.Required) != 2 {
		t.Errorf("%d seats are asked for, with the note %q; want none", p.Expected, p.Note)
	}
	if !slices.Equal(held, []string{"2 2"}) {
		t.Errorf("the quota was asked beside %q, want the two seats of the namespace", held)
	}
}

// A namespace that has wasted seats gets none for as long.
func TestWastedSeatsAreCharged(t *testing.T) {
	const charged = "groups of namespace ns get none until"
	cases := map[string]struct {
		do      func(s *story, k types.NamespacedName)
		charged bool
	}{
		"their time is over":     {func(s *story, _ types.NamespacedName) { s.after(30 * time.Minute) }, true},
		"their time goes on":     {func(s *story, _ types.NamespacedName) { s.after(29 * time.Minute) }, false},
		"the group goes in time": {func(s *story, k types.NamespacedName) { s.after(29 * time.Minute); s.DropPodGroup(k) }, true},
		"the group goes soon":    {func(s *story, k types.NamespacedName) { s.after(4 * time.Minute); s.DropPodGroup(k) }, false},
		"the owner asks for fewer": {func(s *story, k types.NamespacedName) {
			s.after(6 * time.Minute)
			pg := expecting(0)
			pg.UID = "pg-nsa"
			s.PutPodGroup(k, pg)
		}, true},
		"the pod comes": {func(s *story, _ types.NamespacedName) {
			s.after(29 * time.Minute)
			s.add("late", objects.InGroup("a"), asking("2"), role("launcher"))
			s.Plan("late", s.now)
		}, false},
		"a pod comes that asks for less": {func(s *story, _ types.NamespacedName) {
			s.after(29 * time.Minute)
			s.add("late", objects.InGroup("a"), asking("1"), role("launcher"))
			s.Plan("late", s.now)
		}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSeatStory(t)
			k, _ := s.startOf("ns", "a", expecting(1))
			tc.do(s, k)
			s.after(time.Second)
			want, why := 1, ""
			if tc.charged {
				want, why = 0, charged
			}
			s.wantExpected("then", "ns", "b", want, why)
			s.wantExpected("then", "other", "c", 1, "")
			s.now = s.now.Add(31 * time.Minute)
			s.wantExpected("half an hour later", "ns", "d", 1, "")
		})
	}
}

// What becomes of seats is reported by namespace, and first of all that there are some.
func TestTheUseOfSeatsIsTold(t *testing.T) {
	s := newSeatStory(t)
	k, p := s.planOf("ns", "a", expecting(2))
	s.carryOut(k, p)
	if got := s.after(0); !slices.Equal(got, []SeatUse{{Namespace: "ns"}}) {
		t.Errorf("at first: %+v, want the namespace alone", got)
	}
	if got := s.Stats().Seats; len(got) != 1 || got["ns"] != 2 {
		t.Errorf("seats held: %v, want 2 of namespace ns", got)
	}
	s.add("late", objects.InGroup("a"), asking("2"), role("launcher"))
	if _, out := s.Plan("late", s.now); !slices.Equal(out.Seats, []SeatUse{{Namespace: "ns", Taken: 1}}) {
		t.Errorf("when a pod has come: %+v, want one taken", out.Seats)
	}
	s.after(0)
	if got := s.after(30 * time.Minute); !slices.Equal(got, []SeatUse{{Namespace: "ns", Wasted: 1}}) {
		t.Errorf("in the end: %+v, want one wasted", got)
	}
	if got := s.after(time.Second); len(got) != 0 {
		t.Errorf("and again: %+v", got)
	}
	if got := s.Stats().Seats; len(got) != 0 {
		t.Errorf("seats held in the end: %v", got)
	}
}

// While a namespace is charged, it loses the seats that it got after the first of the wasted ones.
func TestSeatsOfLaterGroupsGoWithWastedOnes(t *testing.T) {
	s := newSeatStory(t)
	// The first group gets its pod at last.
	older, _ := s.startOf("ns", "older", expecting(1))
	s.after(time.Second)
	s.startOf("ns", "a", expecting(1))
	s.after(time.Minute)
	younger, _ := s.startOf("ns", "younger", expecting(1))
	other, _ := s.startOf("other", "b", expecting(1))
	s.now = s.now.Add(4 * time.Minute)
	out := s.DropPodGroup(types.NamespacedName{Namespace: "ns", Name: "a"})
	if len(out.Release) == 0 {
		t.Fatal("the seat of the group that goes is not released")
	}
	s.now = s.now.Add(time.Second)
	out = s.ExpireSeats(s.now)
	for k, want := range map[types.NamespacedName]int{older: 1, younger: 0, other: 1} {
		told := slices.ContainsFunc(out.Transitions, func(t Transition) bool { return t.Key == k && strings.Contains(t.Reason, "get none until") })
		if free := len(s.groups[k].free); free != want || told != (want == 0) {
			t.Errorf("group %s has %d seats, want %d: %+v", k, free, want, out.Transitions)
		}
	}
}

// Each charge is twice as long as the last one, and at most two hours. After two quiet hours it begins anew.
func TestAChargeDoubles(t *testing.T) {
	var a seatAccounts
	now := noon
	steps := []struct {
		later, held, want time.Duration
	}{
		{0, 30 * time.Minute, 30 * time.Minute},
		{0, 10 * time.Minute, 30 * time.Minute}, // at the same time
		{time.Hour, 30 * time.Minute, time.Hour},
		{90 * time.Minute, 30 * time.Minute, 2 * time.Hour},
		{150 * time.Minute, 30 * time.Minute, 2 * time.Hour},
		{4 * time.Hour, 20 * time.Minute, 20 * time.Minute},
	}
	for i, step := range steps {
		now = now.Add(step.later)
		if !a.charge("ns", step.held, now, now) {
			t.Errorf("step %d: there is no charge", i)
		}
		if got := a.charges["ns"].until.Sub(now); got != step.want {
			t.Errorf("step %d: the charge is %s, want %s", i, got, step.want)
		}
	}
	if a.charge("past", 10*time.Minute, now.Add(-20*time.Minute), now) || len(a.charges) != 1 {
		t.Errorf("there is a charge that would be over: %v", a.charges)
	}
}

// Seats that another process gave are charged to their namespace as well.
func TestRestoredSeatsAreCharged(t *testing.T) {
	s := newSeatStory(t)
	pg := seatedPodGroup()
	pg.Placed, pg.Seats = 2, RecordedSeats{"worker": {"n-0": 1, "n-1": 1}, "launcher": {"n-seat": 1}}
	s.PutPodGroup(key, pg)
	for i, node := range []string{"n-0", "n-1"} {
		s.add(fmt.Sprint(i), role("worker"), func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = node, boundCondition() })
	}
	s.MarkSynced()
	s.after(0)
	s.wantFreeSeats(1)
	s.after(30 * time.Minute)
	s.wantFreeSeats(0)
	s.wantExpected("after a restart", "ns", "b", 0, "groups of namespace ns get none until")
}

// Annotations, of the PodGroup or else of a pod, can shorten how long seats are held. The message of the group says what they cannot do.
func TestAnnotationsShortenHowLongSeatsAreHeld(t *testing.T) {
	cases := map[string]struct {
		podGroup group.ExpectAnnotations
		pod      map[string]string
		total    time.Duration
		note     string
		none     bool
	}{
		"no annotation":   {total: 30 * time.Minute},
		"of the PodGroup": {podGroup: group.ExpectAnnotations{Total: "10m"}, pod: map[string]string{group.ExpectTotalAnnotation: "7m"}, total: 10 * time.Minute},
		"of a pod":        {pod: map[string]string{group.ExpectTotalAnnotation: "7m"}, total: 7 * time.Minute},
		"longer":          {podGroup: group.ExpectAnnotations{Total: "31m"}, total: 30 * time.Minute, note: `annotation fluence.flux-framework.org/expect-total: "31m": must be a duration from 0s to 30m0s`},
		"not a time":      {podGroup: group.ExpectAnnotations{Timeout: "soon"}, total: 30 * time.Minute, note: `annotation fluence.flux-framework.org/expect-timeout: "soon"`},
		"none":            {podGroup: group.ExpectAnnotations{Timeout: "0s"}, note: "no room is held for 1 expected pod: the time for it is 0s", none: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSeatStory(t)
			pg := expecting(1)
			pg.Expect = tc.podGroup
			k, _ := s.planOf("ns", "a", pg)
			s.update("a-1", func(p *corev1.Pod) { p.Annotations = tc.pod })
			p, _ := s.Plan("a-0", s.now)
			if (p.Expected == 0) != tc.none || !strings.Contains(p.Note, tc.note) || (tc.note == "") != (p.Note == "") {
				t.Fatalf("%d seats, with the note %q; want the note %q", p.Expected, p.Note, tc.note)
			}
			if tc.none {
				return
			}
			s.carryOut(k, p)
			s.after(0)
			for _, step := range []struct {
				d    time.Duration
				want int
			}{{tc.total - time.Second, 1}, {time.Second, 0}} {
				s.after(step.d)
				if free := len(s.groups[k].free); free != step.want {
					t.Errorf("%d seats are free after %s more, want %d", free, step.d, step.want)
				}
			}
		})
	}
}

// An author who deletes each group before its seats count as wasted is charged when the times add up.
func TestShortHoldsAddUp(t *testing.T) {
	s := newSeatStory(t)
	for i, want := range []bool{false, true} {
		name := fmt.Sprint("short", i)
		k, _ := s.startOf("ns", name, expecting(1))
		s.after(4 * time.Minute)
		s.DropPodGroup(k)
		uses := s.after(time.Second)
		if wasted := slices.ContainsFunc(uses, func(u SeatUse) bool { return u.Wasted > 0 }); wasted != want {
			t.Errorf("after %d groups of 4 minutes: charged %v, want %v: %+v", i+1, wasted, want, uses)
		}
	}
}
