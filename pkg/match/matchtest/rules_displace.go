package matchtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// displacing makes these units such that the request may displace them.
func displacing(units ...match.Unit) option {
	return func(r *match.Request) { r.Op, r.Displace = match.WithoutAllocating, units }
}

// unit returns a unit of these slots.
func unit(class int32, slots ...match.SlotRef) match.Unit {
	return match.Unit{Slots: slots, Class: class}
}

// displaces requests a jobspec that must fit, and checks which units have to go for it, what can be
// said of them by other requests, and that nothing has changed.
func (s *subject) displaces(t *testing.T, js *jobspec.Jobspec, want []int, how ...option) *match.Allocation {
	t.Helper()
	const id = 1000
	before := s.held(t)
	r := match.Request{Epoch: s.epoch, ID: id, Jobspec: js, Now: Now}
	for _, h := range how {
		h(&r)
	}
	a := s.match(t, id, js, how...)
	same(t, "what is displaced", a.Displaced, want)
	same(t, "what a second request displaces", s.match(t, id, js, how...).Displaced, want)
	s.needsAll(t, r, a)
	if least, found, err := LeastHarm(t.Context(), s, r); err != nil || !found {
		t.Errorf("trying all sets of units = %t, %v", found, err)
	} else {
		same(t, "the units of least harm", least, a.Displaced)
	}
	s.holding(t, before)
	return a
}

// needsAll checks that a request fits when what it displaces is ending, with the same slots, and that none of the
// displaced units could stay with these slots.
func (s *subject) needsAll(t *testing.T, r match.Request, a *match.Allocation) {
	t.Helper()
	if _, err := s.Match(t.Context(), Displaced(r, a.Displaced)); err != nil {
		t.Errorf("without the units %v: %v", a.Displaced, err)
	}
	for i, u := range a.Displaced {
		if left := slices.Delete(slices.Clone(a.Displaced), i, i+1); s.staysWith(t, r, left, a) {
			t.Errorf("unit %d can stay with %s", u, standing(a.Slots))
		}
	}
}

// staysWith reports whether the slots of an allocation fit when the units of a set are ending.
func (s *subject) staysWith(t *testing.T, r match.Request, set []int, a *match.Allocation) bool {
	t.Helper()
	r = Displaced(r, set)
	js := *r.Jobspec
	js.Attributes.System.Fluence = nil
	js.Resources, js.Tasks = nil, nil
	on := make(map[[2]string]int64)
	var order [][2]string
	for _, slot := range a.Slots {
		at := [2]string{slot.Label, slot.Node}
		if on[at]++; on[at] == 1 {
			order = append(order, at)
		}
	}
	for i, at := range order {
		for _, res := range r.Jobspec.Resources {
			if res.Label == at[0] {
				res.Label, res.Count = fmt.Sprint(i), jobspec.Exactly(on[at])
				js.Resources = append(js.Resources, res)
				js.Tasks = append(js.Tasks, jobspec.Task{Command: []string{"pod"}, Slot: res.Label, Count: jobspec.TaskCount{PerSlot: 1}})
			}
		}
		Constrain(&js, fmt.Sprint(i), jobspec.SlotAttributes{Constraints: Hosts(at[1])})
	}
	r.Jobspec, r.Keys = &js, nil
	_, err := s.Match(t.Context(), r)
	if err != nil && !errors.Is(err, match.ErrBusy) {
		t.Fatal(err)
	}
	return err == nil
}

// occupied loads nodes of 4 cores, and fills them: the job of index i in layout, counted from 1, has a slot of 2 cores, in order,
// on each node of its word. So "112" means: job 1 on the first node twice, and job 2 on the second node once.
func (s *subject) occupied(t *testing.T, nodes int, jobs ...[]int) {
	t.Helper()
	s.reset(t)
	for i := range nodes {
		s.put(t, Node(fmt.Sprintf("n%d", i+1), [][2]string{{"rack", fmt.Sprintf("r%d", i/2+1)}}, Cores(4)))
	}
	s.ready(t)
	for i, on := range jobs {
		var slots []match.Slot
		for k, n := range on {
			slots = append(slots, Held(fmt.Sprint(k), fmt.Sprintf("n%d", n), Cores(2)))
		}
		s.update(t, match.JobID(i+1), slots...)
	}
}

// unitOf returns a unit of the first n slots of a job.
func unitOf(class int32, id match.JobID, n int) match.Unit {
	var keys []string
	for k := range n {
		keys = append(keys, fmt.Sprint(k))
	}
	return unit(class, match.SlotRef{Job: id, Keys: keys})
}

func displaceable(c Capabilities) bool { return c.Displace && c.Update && c.Ending && c.Constraints }

var displaceRules = map[string]rule{
	"free room is used first": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 2, []int{1}, []int{1})
		s.displaces(t, Slots("a", 2, Cores(2)), nil, displacing(unitOf(0, 1, 1), unitOf(0, 2, 1)))
		s.displaces(t, Slots("a", 3, Cores(2)), []int{0}, displacing(unitOf(0, 1, 1), unitOf(0, 2, 1)))
	}},
	"lower classes go before higher ones, however many": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 2, []int{1, 1}, []int{2}, []int{2})
		s.displaces(t, Slots("a", 1, Cores(4)), []int{1, 2}, displacing(unitOf(1, 1, 2), unitOf(0, 2, 1), unitOf(0, 3, 1)))
		s.displaces(t, Slots("a", 1, Cores(4)), []int{0}, displacing(unitOf(0, 1, 2), unitOf(1, 2, 1), unitOf(0, 3, 1)))
	}},
	"slots that are protected go last, whatever their class": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 2, []int{1, 1}, []int{2, 2})
		guarded := unitOf(0, 1, 2)
		guarded.Protected = 1
		s.displaces(t, Slots("a", 1, Cores(4)), []int{1}, displacing(guarded, unitOf(5, 2, 2)))
		s.displaces(t, Slots("a", 2, Cores(4)), []int{0, 1}, displacing(guarded, unitOf(5, 2, 2)))
		more := unitOf(0, 2, 2)
		more.Protected = 2
		s.displaces(t, Slots("a", 1, Cores(4)), []int{0}, displacing(guarded, more))
	}},
	"in a class, units of one slot go before those of several": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 3, []int{1, 2}, []int{1}, []int{2}, []int{3}, []int{3})
		units := displacing(unitOf(0, 1, 2), unitOf(0, 2, 1), unitOf(0, 3, 1), unitOf(0, 4, 1), unitOf(0, 5, 1))
		s.displaces(t, Slots("a", 1, Cores(4)), []int{3, 4}, units)
		s.displaces(t, Slots("a", 2, Cores(4)), []int{0, 1, 2}, units)
	}},
	"one unit of four slots goes rather than two of two": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 4, []int{1, 1}, []int{2, 2}, []int{3, 3, 4, 4})
		s.displaces(t, Slots("a", 2, Cores(4)), []int{2}, displacing(unitOf(0, 1, 2), unitOf(0, 2, 2), unitOf(0, 3, 4)))
		s.displaces(t, Slots("a", 1, Cores(4)), []int{0}, displacing(unitOf(0, 1, 2), unitOf(0, 2, 2), unitOf(0, 3, 4)))
	}},
	"of equal units the cheapest goes, and else the first": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 3, []int{1, 1}, []int{2, 2}, []int{3, 3})
		units := []match.Unit{unitOf(0, 1, 2), unitOf(0, 2, 2), unitOf(0, 3, 2)}
		units[0].Cost = 1
		s.displaces(t, Slots("a", 1, Cores(4)), []int{1}, displacing(units...))
		units[1].Cost = 2
		s.displaces(t, Slots("a", 1, Cores(4)), []int{2}, displacing(units...))
		s.displaces(t, Slots("a", 2, Cores(4)), []int{0, 2}, displacing(units...))
		units[0].Cost = -5
		s.displaces(t, Slots("a", 1, Cores(4)), []int{0}, displacing(units...))
	}},
	"a unit goes as a whole, over all its nodes and jobs": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 3, []int{1, 2}, []int{1, 3}, []int{2, 3})
		pair := unit(0, slotsOf(1, "0", "1"), slotsOf(2, "1"))
		a := s.displaces(t, Slots("a", 2, Cores(2)), []int{0}, displacing(pair, unitOf(1, 3, 2)))
		same(t, "where it stands", standing(a.Slots), "0@n1 1@n2")
		s.displaces(t, Slots("a", 5, Cores(2)), []int{0, 1}, displacing(pair, unitOf(1, 3, 2)))
	}},
	"slots that no job holds are skipped": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 1, []int{1, 1})
		s.displaces(t, Slots("a", 2, Cores(2)), []int{1}, displacing(unit(0, slotsOf(77, "0")), unit(0, slotsOf(1, "0", "1", "x"), slotsOf(78, "y"))))
	}},
	"what ends, what is ignored and what is expected count": {needs: both(displaceable, both(expects, ignores)), test: func(t *testing.T, s *subject) {
		s.occupied(t, 3, []int{1, 1}, []int{2, 2}, []int{3, 3})
		units := displacing(unitOf(1, 1, 2), unitOf(2, 2, 2))
		s.displaces(t, Slots("a", 1, Cores(4)), []int{0}, units)
		s.displaces(t, Slots("a", 1, Cores(4)), nil, units, without(3))
		s.displaces(t, Slots("a", 1, Cores(4)), nil, units, ending(slotsOf(3)))
		s.displaces(t, Slots("a", 2, Cores(4)), []int{0}, units, ending(slotsOf(3)))
		s.displaces(t, Slots("a", 1, Cores(4)), []int{1}, units, expecting(Held("e", "n1", Cores(1))))
		s.displaces(t, Slots("a", 1, Cores(4)), []int{1}, units, expecting(Held("e", "n3", Cores(1)), Held("f", "n1", Cores(1))), ending(slotsOf(3)))
	}},
	"nodes become whole": {needs: both(displaceable, wholeNodes), test: func(t *testing.T, s *subject) {
		s.occupied(t, 2, []int{1, 2}, []int{2})
		s.displaces(t, Slots("a", 1, Cores(1)), []int{0}, wanting("us"), displacing(unitOf(0, 1, 2), unitOf(0, 2, 1)))
		s.update(t, 3, WithHolder(Held("w", "n1", Cores(1)), "them"))
		s.displaces(t, Slots("a", 1, Cores(1)), []int{0, 1}, wanting("us"), displacing(unitOf(0, 1, 2), unitOf(0, 2, 1)))
		s.displaces(t, Slots("a", 1, Cores(1)), nil, displacing(unit(0, slotsOf(3, "w"))), ending(slotsOf(2)))
		s.displaces(t, Slots("a", 1, Cores(2)), []int{0}, displacing(unit(0, slotsOf(3, "w"))))
	}},
	"limits are kept": {needs: both(displaceable, maxPerLevel), test: func(t *testing.T, s *subject) {
		s.occupied(t, 2, []int{1, 1}, []int{2}, []int{2})
		js := Constrain(Slots("a", 2, Cores(2)), "a", jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"node": 1}})
		s.displaces(t, js, []int{0, 1}, displacing(unitOf(1, 1, 2), unitOf(0, 2, 1), unitOf(0, 3, 1)))
		s.displaces(t, Slots("a", 2, Cores(2)), []int{1, 2}, displacing(unitOf(1, 1, 2), unitOf(0, 2, 1), unitOf(0, 3, 1)))
	}},
	"a required level is kept, over all resources": {needs: both(displaceable, topology), test: func(t *testing.T, s *subject) {
		s.occupied(t, 4, []int{1, 1}, []int{3, 3}, []int{2}, []int{2}, []int{4, 4})
		units := displacing(unitOf(0, 1, 2), unitOf(0, 2, 2), unitOf(0, 3, 1), unitOf(0, 4, 1), unitOf(1, 5, 2))
		s.displaces(t, Together(Slots("a", 2, Cores(4)), inOneRack), []int{0, 2, 3}, units)
		s.displaces(t, Slots("a", 2, Cores(4)), []int{0, 2, 3}, units)
		s.displaces(t, Together(Slots("a", 3, Cores(2)), inOneRack), []int{0}, displacing(unitOf(0, 2, 2)), ending(slotsOf(5)))
	}},
	"several shapes are placed together": {needs: both(displaceable, shapes), test: func(t *testing.T, s *subject) {
		s.occupied(t, 3, []int{1, 1}, []int{2, 2}, []int{3}, []int{3})
		js := Jobspec(Slot("a", jobspec.Exactly(1), Cores(4)), Slot("b", jobspec.Exactly(1), Cores(2)))
		s.displaces(t, js, []int{0, 2}, displacing(unitOf(0, 1, 2), unitOf(0, 2, 2), unitOf(0, 3, 1), unitOf(0, 4, 1)))
	}},
	"a refusal has the numbers as if all units had gone": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 2, []int{1, 1}, []int{2, 2})
		r := s.refuses(t, 9, Slots("a", 3, Cores(2)), match.ErrBusy, displacing(unitOf(0, 1, 2)))
		if s.can.Reasons {
			same(t, "the reason", []any{r.AllDisplaced, r.Wanted, r.Found, r.WaitingHelps}, []any{true, int64(3), int64(2), true})
		}
		r = s.refuses(t, 9, Slots("a", 3, Cores(2)), match.ErrBusy, as(match.WithoutAllocating))
		same(t, "without units", r.AllDisplaced, false)
		s.refuses(t, 9, Slots("a", 5, Cores(2)), match.ErrUnsatisfiable, displacing(unitOf(0, 1, 2)))
	}},
	"a job that holds something is answered with that": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 2, []int{1, 1})
		first := s.match(t, 9, Slots("a", 1, Cores(2)))
		again := s.match(t, 9, Slots("a", 1, Cores(2)), displacing(unitOf(0, 1, 2)))
		same(t, "the answer", again, first)
	}},
	"units go only with an operation that books nothing and begins now": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 1, []int{1, 1})
		for _, op := range []match.Op{match.Allocate, match.AllocateOrElseReserve, match.Satisfiability, match.WithoutAllocatingFuture} {
			s.fails(t, 9, Slots("a", 1, Cores(2)), match.ErrInvalid, displacing(unitOf(0, 1, 2)), as(op))
		}
		s.holding(t, "1: 0@n1 1@n1")
	}},
	"wrong units are invalid": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 1, []int{1, 1})
		for name, units := range map[string][]match.Unit{
			"a slot in two units":                        {unit(0, slotsOf(1, "0")), unit(0, slotsOf(1, "1", "0"))},
			"a slot and all slots in two units":          {unit(0, slotsOf(1, "0")), unit(0, slotsOf(1))},
			"all slots in two units":                     {unit(0, slotsOf(1)), unit(0, slotsOf(1))},
			"a slot of the request's job":                {unit(0, slotsOf(1, "0"), slotsOf(9, "0"))},
			"a class below 0":                            {unit(-1, slotsOf(1, "0"))},
			"protected slots below 0":                    {{Slots: []match.SlotRef{slotsOf(1)}, Protected: -1}},
			"a slot in two units, and not in two before": {unit(0, slotsOf(1, "0"), slotsOf(1, "2")), unit(0, slotsOf(1, "1")), unit(0, slotsOf(1, "2"))},
			"all slots beside a slot":                    {unit(0, slotsOf(1, "0"), slotsOf(1)), unit(0, slotsOf(1, "1"))},
		} {
			if _, err := s.try(t.Context(), 9, Slots("a", 1, Cores(2)), displacing(units...)); !errors.Is(err, match.ErrInvalid) {
				t.Errorf("%s: %v, want the error %q", name, err, match.ErrInvalid)
			}
		}
		s.displaces(t, Slots("a", 1, Cores(2)), []int{0}, displacing(unit(0, slotsOf(1, "0"), slotsOf(1, "0")), unit(1, slotsOf(1, "1"))))
	}},
	"too many units are invalid": {needs: displaceable, test: func(t *testing.T, s *subject) {
		s.occupied(t, 1, []int{1, 1})
		s.fails(t, 9, Slots("a", 1, Cores(2)), match.ErrInvalid, displacing(make([]match.Unit, match.MaxUnits+1)...))
	}},
	"an engine that cannot choose says so": {needs: func(c Capabilities) bool { return !c.Displace }, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(2)), keys("x"))
		s.fails(t, 2, Slots("b", 1, Cores(2)), match.ErrInvalid, displacing(unit(0, slotsOf(1, "x"))))
	}},
}
