package matchtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// replacing makes the request take over slots of a job: those with these keys, or all without keys.
func replacing(id match.JobID, keys ...string) option {
	return func(r *match.Request) { r.Replaces, r.ReplacesKeys = id, keys }
}

// taken loads a pair of nodes, which job 1 holds whole: x on n1, and y on n2.
func (s *subject) taken(t *testing.T, how ...option) {
	t.Helper()
	s.load(t, pair()...)
	s.match(t, 1, all(), append([]option{keys("x", "y")}, how...)...)
}

// replacesAnd returns the condition of rules about replacing that need something else too.
func replacesAnd(other func(Capabilities) bool) func(Capabilities) bool { return both(replaces, other) }

var replaceRules = map[string]rule{
	"an engine that does not replace says so": {needs: func(c Capabilities) bool { return !c.Replaces }, test: func(t *testing.T, s *subject) {
		s.taken(t)
		s.fails(t, 2, all(), match.ErrInvalid, replacing(1))
		s.holding(t, "1: x@n1 y@n2")
	}},
	"there is room only because the slots are replaced": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.taken(t)
		s.refuses(t, 2, all(), match.ErrBusy)
		a := s.places(t, 2, all(), "0@n1 1@n2", replacing(1))
		same(t, "what the job is given", Amounts(a.R), map[string]int64{"core": 4000})
		s.holding(t, "2: 0@n1 1@n2")
		s.refuses(t, 3, Slots("b", 1, Cores(1)), match.ErrBusy)
		s.places(t, 3, Slots("b", 1, Cores(1)), "0@n1", replacing(2, "0"))
		s.places(t, 4, Slots("b", 1, Cores(1)), "0@n1")
		s.refuses(t, 5, Slots("b", 1, Cores(1)), match.ErrBusy)
	}},
	"with keys only these slots are replaced, and the others stay": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.taken(t)
		s.refuses(t, 2, all(), match.ErrBusy, replacing(1, "y"))
		s.places(t, 2, two(), "0@n2", replacing(1, "y"))
		s.holding(t, "1: x@n1; 2: 0@n2")
		s.fails(t, 1, all(), match.ErrConflict, keys("x", "y"))
		s.refuses(t, 3, Slots("b", 1, Cores(1)), match.ErrBusy)
		s.release(t, 1)
		s.places(t, 3, two(), "0@n1")
	}},
	"what is replaced may be smaller or larger than what is booked": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4), Memory(8)), Node("n2", nil, Cores(4), Memory(8)))
		s.match(t, 1, Slots("a", 2, Cores(2), Memory(4)), keys("x", "y"))
		s.places(t, 2, Slots("b", 4, Cores(1), Memory(1)), "0@n1 1@n1 2@n1 3@n1", replacing(1))
		s.places(t, 3, Slots("b", 1, Cores(4), Memory(8)), "0@n1", replacing(2))
		s.places(t, 4, Slots("b", 1, Cores(4), Memory(8)), "0@n2")
	}},
	"what is booked may be elsewhere than what is replaced": {needs: replacesAnd(constraints), test: func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.match(t, 1, two(), keys("x"))
		js := Constrain(two(), "a", jobspec.SlotAttributes{Constraints: Hosts("n2")})
		s.places(t, 2, js, "0@n2", replacing(1))
		s.holding(t, "2: 0@n2")
		s.places(t, 3, two(), "0@n1")
	}},
	"a job may take over slot after slot, each on its node": {needs: replacesAnd(both(constraints, limits)), test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		s.match(t, 1, Slots("a", 6, Cores(2)), keys("u", "v", "w", "x", "y", "z"))
		on := Limited(Constrain(Slots("a", 3, Cores(2)), "a", jobspec.SlotAttributes{Constraints: Hosts("n1", "n3")}), "a",
			jobspec.Limit{Name: "one", Hosts: []string{"n1"}, Most: 1}, jobspec.Limit{Name: "both", Hosts: []string{"n3"}, Most: 2})
		s.refuses(t, 2, on, match.ErrBusy, replacing(1, "u", "y"))
		s.places(t, 2, on, "0@n1 1@n3 2@n3", replacing(1, "u", "y", "z"))
		s.holding(t, "1: v@n1 w@n2 x@n2; 2: 0@n1 1@n3 2@n3")
	}},
	"a refusal changes nothing": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.taken(t)
		js := func() *jobspec.Jobspec { return Slots("b", 3, Cores(1)) }
		s.refuses(t, 2, js(), match.ErrBusy, replacing(1, "x"))
		s.refuses(t, 2, Slots("b", 3, Cores(2)), match.ErrUnsatisfiable, replacing(1))
		s.refuses(t, 3, Slots("b", 1, Cores(1)), match.ErrBusy)
		s.places(t, 1, all(), "x@n1 y@n2", keys("x", "y"))
		s.holding(t, "1: x@n1 y@n2")
		s.places(t, 2, js(), "0@n1 1@n1 2@n2", replacing(1))
	}},
	"a request that fails changes nothing": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.load(t, append(pair(), Node("n3", nil, Cores(2)))...)
		s.match(t, 1, all(), keys("x", "y"))
		s.match(t, 2, two())
		s.fails(t, 2, Slots("b", 1, Cores(1)), match.ErrConflict, replacing(1))
		s.fails(t, 3, Slots("b", 1), match.ErrInvalid, replacing(1))
		if _, err := s.try(gone(t), 3, two(), replacing(1)); !errors.Is(err, context.Canceled) {
			t.Errorf("Match() = %v, want %v", err, context.Canceled)
		}
		s.holding(t, "1: x@n1 y@n2; 2: 0@n3")
		s.places(t, 1, all(), "x@n1 y@n2", keys("x", "y"))
	}},
	"an operation that books nothing only counts the slots as free": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.taken(t)
		ask := as(match.WithoutAllocating)
		s.places(t, 2, all(), "0@n1 1@n2", ask, replacing(1))
		s.places(t, 2, two(), "0@n2", ask, replacing(1, "y"))
		s.refuses(t, 2, all(), match.ErrBusy, ask, replacing(1, "y"))
		s.holding(t, "1: x@n1 y@n2")
		s.places(t, 1, all(), "x@n1 y@n2", keys("x", "y"))
	}},
	"satisfiability does not look at it": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.taken(t)
		s.places(t, 2, all(), "0@n1 1@n2", as(match.Satisfiability), replacing(1, "x"))
		s.refuses(t, 2, Slots("b", 3, Cores(2)), match.ErrUnsatisfiable, as(match.Satisfiability), replacing(1))
		s.holding(t, "1: x@n1 y@n2")
	}},
	"the same request again is the same allocation, whatever it replaces": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.load(t, append(pair(), Node("n3", nil, Cores(2)))...)
		s.match(t, 1, all(), keys("x", "y"))
		s.match(t, 3, two())
		first := s.match(t, 2, two(), replacing(1, "y"), lasting(time.Hour))
		again := map[string][]option{
			"the slot is gone":          {replacing(1, "y")},
			"all slots":                 {replacing(1)},
			"another job":               {replacing(3)},
			"a job that is not there":   {replacing(77, "k")},
			"nothing":                   nil,
			"without booking":           {replacing(1), as(match.WithoutAllocating)},
			"nothing, without booking ": {as(match.WithoutAllocating)},
		}
		for name, how := range again {
			same(t, "the allocation again: "+name, s.match(t, 2, two(), append(how, lasting(time.Hour))...), first)
		}
		s.holding(t, "1: x@n1; 2: 0@n2; 3: 0@n3")
		s.release(t, 1)
		same(t, "the allocation again, without the job", s.match(t, 2, two(), replacing(1), lasting(time.Hour)), first)
		s.fails(t, 2, two(), match.ErrConflict, replacing(3))
		s.holding(t, "2: 0@n2; 3: 0@n3")
	}},
	"slots and jobs that are not there are skipped, and a slot counts once": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, two(), keys("x"))
		s.match(t, 2, two(), keys("y"))
		s.refuses(t, 3, Slots("b", 1, Cores(1)), match.ErrBusy, replacing(77))
		s.refuses(t, 3, Slots("b", 1, Cores(1)), match.ErrBusy, replacing(77, "x"))
		s.refuses(t, 3, Slots("b", 1, Cores(1)), match.ErrBusy, replacing(1, "y", ""))
		s.refuses(t, 3, Slots("b", 1, Cores(3)), match.ErrBusy, replacing(1, "x", "x", "z"))
		s.holding(t, "1: x@n1; 2: y@n1")
		s.places(t, 3, two(), "0@n1", replacing(1, "z", "x", "x"))
		s.holding(t, "2: y@n1; 3: 0@n1")
		s.release(t, 2)
		s.places(t, 4, two(), "0@n1", replacing(1))
		s.refuses(t, 5, Slots("b", 1, Cores(1)), match.ErrBusy)
	}},
	"a job does not replace itself": {test: func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		_, err := s.try(t.Context(), 71, two(), replacing(71))
		if wantInvalid(t, "Match()", err); s.can.Replaces {
			wantInvalid(t, "Match()", err, "replace", "71")
		}
		s.match(t, 71, two())
		for _, op := range []match.Op{match.Allocate, match.WithoutAllocating, match.Satisfiability} {
			s.fails(t, 71, two(), match.ErrInvalid, replacing(71, "0"), as(op))
		}
		s.holding(t, "71: 0@n1")
	}},
	"keys to replace need a job": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		for _, op := range []match.Op{match.Allocate, match.WithoutAllocating, match.Satisfiability} {
			_, err := s.try(t.Context(), 2, two(), replacing(0, "k71"), as(op))
			wantInvalid(t, "Match()", err, "replace", "k71")
		}
		s.holding(t, "")
	}},
	"a request that may reserve replaces nothing": {test: func(t *testing.T, s *subject) {
		s.taken(t)
		s.fails(t, 2, all(), match.ErrInvalid, orElse(), replacing(1))
		s.fails(t, 2, all(), match.ErrInvalid, orElse(), replacing(77))
		s.holding(t, "1: x@n1 y@n2")
	}},
	"a refusal counts the slots as free": {needs: replacesAnd(reasons), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.match(t, 1, Slots("a", 2, Cores(3)), keys("x", "y"))
		for _, op := range []match.Op{match.Allocate, match.WithoutAllocating} {
			same(t, "the reason", s.refuses(t, 2, Slots("b", 3, Cores(2)), match.ErrBusy, replacing(1, "x"), as(op)), match.Reason{
				Code: match.TooFew, Slot: "b", Level: "cluster", Wanted: 3, Found: 2, Nodes: 2,
				Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 2000, MaxOnNode: 1000, Nodes: 1}},
				Blocker:   &match.Blocker{Job: 1, MoreSlots: 1}, WaitingHelps: true,
			})
		}
	}},
	"a job that would help counts with the slots that it keeps": {needs: replacesAnd(reasons), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)), Node("n3", nil, Cores(2)), Node("n4", nil, Cores(2)))
		s.match(t, 1, Slots("a", 3, Cores(2)), keys("x", "y", "z"))
		s.match(t, 2, two())
		want := &match.Blocker{Job: 1, MoreSlots: 2}
		same(t, "the job", s.refuses(t, 3, Slots("b", 4, Cores(2)), match.ErrBusy, replacing(1, "x")).Blocker, want)
		if s.can.Ending {
			r := s.refuses(t, 3, Slots("b", 4, Cores(2)), match.ErrBusy, ending(slotsOf(1, "x")), as(match.WithoutAllocating))
			same(t, "the job, of which a slot is ending", r.Blocker, want)
		}
		s.holding(t, "1: x@n1 y@n2 z@n3; 2: 0@n4")
	}},
	"the holder of what is replaced is not in the way": {needs: replacesAnd(wholeNodes), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, Slots("a", 1, Cores(1)), wanting("us"))
		s.refuses(t, 2, one(), match.ErrBusy, replacing(77))
		s.places(t, 2, one(), "0@n1", replacing(1))
		s.places(t, 3, one(), "0@n1")
		s.refuses(t, 4, one(), match.ErrBusy, wanting("them"), replacing(2))
		s.release(t, 3)
		s.places(t, 4, one(), "0@n1", wanting("them"), replacing(2))
		s.refuses(t, 5, one(), match.ErrBusy)
		s.refuses(t, 5, one(), match.ErrBusy, forHolder("us"))
		s.places(t, 5, one(), "0@n1", forHolder("us"), replacing(4))
		s.holding(t, "5: 0@n1")
	}},
	"what is left keeps its node whole": {needs: replacesAnd(wholeNodes), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, Slots("a", 2, Cores(1)), keys("x", "y"), wanting("us"))
		s.refuses(t, 2, one(), match.ErrBusy, replacing(1, "x"))
		s.refuses(t, 2, one(), match.ErrBusy, replacing(1, "x"), wanting("them"))
		s.places(t, 2, one(), "0@n1", replacing(1, "x"), wanting("us"))
		s.refuses(t, 3, one(), match.ErrBusy)
		s.holding(t, "1: y@n1; 2: 0@n1")
		s.places(t, 3, Slots("a", 3, Cores(1)), "0@n1 1@n1 2@n1", replacing(1), wanting("us"))
	}},
	"what is expected counts as held where slots are replaced": {needs: replacesAnd(expects), test: func(t *testing.T, s *subject) {
		s.taken(t)
		x := expecting(Held("e", "n1", Cores(1)))
		s.refuses(t, 2, all(), match.ErrBusy, x, replacing(1))
		s.holding(t, "1: x@n1 y@n2")
		s.places(t, 2, two(), "0@n2", x, replacing(1))
		s.holding(t, "2: 0@n2")
		s.places(t, 3, two(), "0@n1")
	}},
	"a job that holds something is not ignored, even if it is replaced": {needs: replacesAnd(ignores), test: func(t *testing.T, s *subject) {
		s.taken(t)
		s.fails(t, 2, all(), match.ErrInvalid, without(1), replacing(1))
		s.holding(t, "1: x@n1 y@n2")
		s.places(t, 2, all(), "0@n1 1@n2", as(match.WithoutAllocating), without(1), replacing(1, "x"))
		s.holding(t, "1: x@n1 y@n2")
	}},
	"slots may be ending and replaced": {needs: replacesAnd(endings), test: func(t *testing.T, s *subject) {
		s.taken(t)
		ask := as(match.WithoutAllocating)
		s.places(t, 2, all(), "0@n1 1@n2", ask, ending(slotsOf(1, "x")), replacing(1, "y"))
		s.refuses(t, 2, all(), match.ErrBusy, ask, ending(slotsOf(1, "y")), replacing(1, "y"))
		s.holding(t, "1: x@n1 y@n2")
	}},
	"a unit has nothing where its slots are replaced": {needs: replacesAnd(func(c Capabilities) bool { return c.Displace }), test: func(t *testing.T, s *subject) {
		s.load(t, append(pair(), Node("n3", nil, Cores(2)))...)
		s.match(t, 1, all(), keys("x", "y"))
		s.match(t, 3, two(), keys("z"))
		units := displacing(unit(0, slotsOf(1, "x")), unit(1, slotsOf(1, "y")), unit(2, slotsOf(3)))
		same(t, "what goes", s.match(t, 2, all(), units, replacing(1)).Displaced, []int{})
		same(t, "what goes", s.match(t, 2, Slots("b", 3, Cores(2)), units, replacing(1)).Displaced, []int{2})
		same(t, "what goes", s.match(t, 2, all(), units, replacing(1, "x")).Displaced, []int{1})
		s.holding(t, "1: x@n1 y@n2; 3: z@n3")
	}},
	"slots on nodes that are gone or down are released too": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.load(t, append(pair(), Node("n3", nil, Cores(2)))...)
		s.match(t, 1, Slots("a", 3, Cores(2)), keys("x", "y", "z"))
		s.remove(t, "n1")
		s.refuses(t, 2, Slots("b", 3, Cores(2)), match.ErrUnsatisfiable, replacing(1))
		s.holding(t, "1: x@n1 y@n2 z@n3")
		s.places(t, 2, two(), "0@n2", replacing(1, "x", "y"))
		s.put(t, Node("n1", nil, Cores(2)))
		s.places(t, 3, two(), "0@n1")
		s.holding(t, "1: z@n3; 2: 0@n2; 3: 0@n1")
	}},
	"what the cluster holds is replaced": {needs: replacesAnd(updates), test: func(t *testing.T, s *subject) {
		s.load(t, pair()...)
		s.update(t, 1, Held("x", "n1", Cores(2)), Held("y", "n2", Cores(1)), Held("z", "n2", Cores(2)))
		s.refuses(t, 2, two(), match.ErrBusy, replacing(1, "z"))
		s.places(t, 2, two(), "0@n2", replacing(1, "y", "z"))
		s.update(t, 1, Held("y", "n2", Cores(1)))
		s.holding(t, "1: x@n1 y@n2; 2: 0@n2")
		s.places(t, 2, two(), "0@n2", replacing(1, "y", "z"))
		s.holding(t, "1: x@n1 y@n2; 2: 0@n2")
	}},
	"a promise to others is kept": {needs: replacesAnd(reserves), test: func(t *testing.T, s *subject) {
		s.taken(t, minutes(10))
		s.reserves(t, 2, all(), "10-20", "0@n1 1@n2", minutes(10))
		s.refuses(t, 3, two(), match.ErrBusy, replacing(1))
		s.refuses(t, 3, two(), match.ErrBusy, replacing(1), minutes(11))
		s.refuses(t, 3, two(), match.ErrBusy, replacing(1, "y"), minutes(11))
		s.holding(t, "1: x@n1 y@n2; 2: 0@n1 1@n2")
		s.places(t, 3, two(), "0@n2", replacing(1, "y"), minutes(10))
		s.promising(t, "2: 10-20 0@n1 1@n2")
		s.places(t, 4, two(), "0@n1", replacing(1), minutes(30), without(2))
		s.holding(t, "2: 0@n1 1@n2; 3: 0@n2; 4: 0@n1")
	}},
	"a reservation is replaced like an allocation": {needs: replacesAnd(reserves), test: func(t *testing.T, s *subject) {
		s.load(t, append(pair(), Node("n3", nil, Cores(2)))...)
		s.match(t, 1, Slots("a", 3, Cores(2)), minutes(10), keys("x", "y", "z"))
		s.reserves(t, 2, Slots("a", 3, Cores(2)), "10-20", "x@n1 y@n2 z@n3", minutes(10), keys("x", "y", "z"))
		s.release(t, 1)
		s.refuses(t, 3, two(), match.ErrBusy, replacing(77))
		s.refuses(t, 3, all(), match.ErrBusy, replacing(2, "y"))
		s.promising(t, "2: 10-20 x@n1 y@n2 z@n3")
		s.places(t, 3, two(), "0@n2", replacing(2, "y"), as(match.WithoutAllocating))
		s.promising(t, "2: 10-20 x@n1 y@n2 z@n3")
		s.places(t, 3, two(), "0@n2", replacing(2, "y"))
		s.promising(t, "2: 10-20 x@n1 z@n3")
		s.places(t, 4, all(), "0@n1 1@n3", replacing(2))
		s.promising(t, "")
		s.holding(t, "3: 0@n2; 4: 0@n1 1@n3")
	}},
	"later times count the slots as free too": {needs: replacesAnd(reserves), test: func(t *testing.T, s *subject) {
		s.taken(t)
		later := as(match.WithoutAllocatingFuture)
		s.match(t, 3, two(), replacing(1, "y"), minutes(10))
		s.refuses(t, 2, all(), match.ErrBusy, later)
		if a := s.places(t, 2, all(), "0@n1 1@n2", later, replacing(1)); !a.Reserved || !a.Start.Equal(in(10)) {
			t.Errorf("Match() = reserved %v from %s on, want it from %s on", a.Reserved, a.Start, in(10))
		}
		s.holding(t, "1: x@n1; 3: 0@n2")
	}},
	"nobody gets between what is replaced and what is booked": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.taken(t)
		over := make(chan struct{})
		var others, takers sync.WaitGroup
		for id := match.JobID(1000); id < 1004; id++ {
			others.Go(func() {
				for {
					if _, err := s.try(t.Context(), id, Slots("b", 1, Cores(1))); !errors.Is(err, match.ErrBusy) {
						t.Errorf("Match(%d) = %v, want %v", id, err, match.ErrBusy)
					}
					select {
					case <-over:
						return
					default:
					}
				}
			})
		}
		takers.Go(func() {
			for id := match.JobID(2); id < 40; id++ {
				if _, err := s.try(t.Context(), id, all(), replacing(id-1)); err != nil {
					t.Errorf("Match(%d) = %v", id, err)
				}
			}
		})
		takers.Wait()
		close(over)
		others.Wait()
		s.holding(t, "39: 0@n1 1@n2")
	}},
	"of many who replace the same job as a whole one gets it": {needs: replaces, test: func(t *testing.T, s *subject) {
		s.taken(t)
		var (
			wg  sync.WaitGroup
			mu  sync.Mutex
			got int
		)
		for id := match.JobID(2); id < 18; id++ {
			wg.Go(func() {
				_, err := s.try(t.Context(), id, all(), replacing(1))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					got++
				case !errors.Is(err, match.ErrBusy):
					t.Errorf("Match(%d) = %v", id, err)
				}
			})
		}
		wg.Wait()
		if got != 1 || len(s.jobs(t)) != 1 {
			t.Errorf("%d jobs replaced job 1, and %d hold something, want one", got, len(s.jobs(t)))
		}
	}},
}
