package matchtest

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

// ending makes these slots count as free for one request.
func ending(slots ...match.SlotRef) option {
	return func(r *match.Request) { r.Ending = slots }
}

// slotsOf names slots of a job.
func slotsOf(id match.JobID, keys ...string) match.SlotRef { return match.SlotRef{Job: id, Keys: keys} }

var endingRules = map[string]rule{
	"ending slots count as free, and the others of their job as held": {needs: endings, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.match(t, 1, Slots("a", 2, Cores(2)), keys("x", "y"))
		ask := as(match.WithoutAllocating)
		s.places(t, 2, Slots("b", 1, Cores(2)), "0@n2", ask, ending(slotsOf(1, "y")))
		s.refuses(t, 2, Slots("b", 2, Cores(2)), match.ErrBusy, ask, ending(slotsOf(1, "y")))
		s.places(t, 2, Slots("b", 2, Cores(2)), "0@n1 1@n2", ask, ending(slotsOf(1, "y"), slotsOf(1, "x")))
		s.places(t, 2, Slots("b", 2, Cores(2)), "0@n1 1@n2", ask, ending(slotsOf(1)))
		s.holding(t, "1: x@n1 y@n2")
		s.refuses(t, 2, Slots("b", 1, Cores(1)), match.ErrBusy)
	}},
	"slots that no job holds are skipped, and a slot counts once": {needs: endings, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, Slots("a", 1, Cores(2)), keys("x"))
		s.match(t, 2, Slots("a", 1, Cores(2)), keys("y"))
		ask := as(match.WithoutAllocating)
		s.places(t, 3, Slots("b", 1, Cores(2)), "0@n1", ask, ending(slotsOf(1, "x", "x", "z"), slotsOf(1), slotsOf(77), slotsOf(78, "x")))
		s.refuses(t, 3, Slots("b", 1, Cores(3)), match.ErrBusy, ask, ending(slotsOf(1, "x", "x", "z"), slotsOf(1), slotsOf(77)))
		s.holding(t, "1: x@n1; 2: y@n1")
	}},
	"what is expected counts as held where slots end": {needs: both(endings, expects), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.match(t, 1, Slots("a", 2, Cores(4)), keys("x", "y"))
		ask := as(match.WithoutAllocating)
		s.places(t, 2, Slots("b", 1, Cores(3)), "0@n2", ask, ending(slotsOf(1)), expecting(Held("e", "n1", Cores(2))))
		s.refuses(t, 2, Slots("b", 2, Cores(3)), match.ErrBusy, ask, ending(slotsOf(1)), expecting(Held("e", "n1", Cores(2))))
	}},
	"a node is whole when the slots that end are gone": {needs: both(endings, wholeNodes), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, Slots("a", 1, Cores(1)), keys("x"))
		s.refuses(t, 2, Slots("b", 1, Cores(1)), match.ErrBusy, wanting("us"), as(match.WithoutAllocating))
		s.places(t, 2, Slots("b", 1, Cores(1)), "0@n1", wanting("us"), as(match.WithoutAllocating), ending(slotsOf(1, "x")))
		s.holding(t, "1: x@n1")
	}},
	"satisfiability does not look at slots that end": {needs: endings, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, Slots("a", 1, Cores(4)), keys("x"))
		s.places(t, 2, Slots("b", 1, Cores(4)), "0@n1", as(match.Satisfiability), ending(slotsOf(1, "x")))
		s.refuses(t, 2, Slots("b", 1, Cores(5)), match.ErrUnsatisfiable, as(match.Satisfiability), ending(slotsOf(1, "x")))
	}},
	"ending slots do not go with an operation that books": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(2)))
		s.fails(t, 2, Slots("b", 1, Cores(2)), match.ErrInvalid, ending(slotsOf(1)))
		s.fails(t, 2, Slots("b", 1, Cores(2)), match.ErrInvalid, as(match.AllocateOrElseReserve), ending(slotsOf(1)))
		s.holding(t, "1: 0@n1")
	}},
	"an engine that cannot leave out a part of a job says so": {needs: func(c Capabilities) bool { return !c.Ending }, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.fails(t, 2, Slots("b", 1, Cores(2)), match.ErrInvalid, as(match.WithoutAllocating), ending(slotsOf(1)))
	}},
	"the slots that end are not of the request's own job": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(1)))
		s.fails(t, 1, Slots("a", 1, Cores(1)), match.ErrInvalid, as(match.WithoutAllocating), ending(slotsOf(1)))
		s.holding(t, "1: 0@n1")
	}},
}
