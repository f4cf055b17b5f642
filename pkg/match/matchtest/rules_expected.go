package matchtest

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

// expecting makes these slots count as held for one request.
func expecting(slots ...match.Slot) option {
	return func(r *match.Request) { r.Expected = slots }
}

var expectedRules = map[string]rule{
	"what others are about to take is left to them": {needs: expects, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.match(t, 9, Slots("a", 1, Cores(1)))
		s.places(t, 1, Slots("a", 3, Cores(1)), "0@n1 1@n2 2@n2", expecting(Held("x", "n1", Cores(2))))
		s.holding(t, "1: 0@n1 1@n2 2@n2; 9: 0@n1")
	}},
	"it is part of a refusal's numbers, and waiting helps": {needs: both(expects, reasons), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.match(t, 9, Slots("a", 1, Cores(1)))
		r := s.refuses(t, 1, Slots("b", 3, Cores(2)), match.ErrBusy, expecting(Held("x", "n2", Cores(3)), Held("y", "n1", Cores(1))))
		r.Blocker = nil
		same(t, "the reason", r, match.Reason{
			Code: match.TooFew, Slot: "b", Level: "cluster", Wanted: 3, Found: 1, Nodes: 2,
			Shortages:    []match.Shortage{{Type: "core", Unit: "m", Wanted: 2000, MaxOnNode: 1000, Nodes: 1}},
			WaitingHelps: true,
		})
	}},
	"nothing of it is left after the request, whatever came of that": {needs: expects, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		x := expecting(Held("x", "n1", Cores(3)), Held("y", "n2", Cores(4)))
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n1", x)
		s.refuses(t, 2, Slots("a", 1, Cores(2)), match.ErrBusy, x)
		s.places(t, 2, Slots("a", 1, Cores(1)), "0@n1", expecting(Held("x", "n1", Cores(2))), as(match.WithoutAllocating))
		s.fails(t, 1, Slots("a", 2, Cores(1)), match.ErrConflict, x)
		s.fails(t, 0, Slots("a", 1, Cores(1)), match.ErrInvalid, x)
		s.holding(t, "1: 0@n1")
		s.places(t, 3, Slots("a", 7, Cores(1)), "0@n1 1@n1 2@n1 3@n2 4@n2 5@n2 6@n2")
		s.refuses(t, 4, Slots("a", 1, Cores(1)), match.ErrBusy)
	}},
	"more may be expected of a pool than it has": {needs: expects, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.places(t, 1, Slots("a", 2, Cores(2)), "0@n2 1@n2", expecting(Held("x", "n1", Cores(64)), Held("y", "n1", Cores(3), GPUs(1))))
		s.places(t, 2, Slots("a", 2, Cores(2)), "0@n1 1@n1")
	}},
	"nodes that the graph lacks are passed over": {needs: expects, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.places(t, 1, Slots("a", 1, Cores(4)), "0@n1", expecting(Held("x", "n2", Cores(4))))
		s.put(t, Node("n2", nil, Cores(4)))
		s.places(t, 2, Slots("a", 1, Cores(4)), "0@n2")
	}},
	"satisfiability does not look at it": {needs: expects, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.places(t, 1, Slots("a", 1, Cores(4)), "0@n1", as(match.Satisfiability), expecting(Held("x", "n1", Cores(4))))
		s.refuses(t, 1, Slots("a", 1, Cores(4)), match.ErrBusy, expecting(Held("x", "n1", Cores(4))))
	}},
	"it does not make a repeated request another one": {needs: expects, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		first := s.match(t, 1, Slots("a", 1, Cores(2)), expecting(Held("x", "n1", Cores(1))))
		again := s.match(t, 1, Slots("a", 1, Cores(2)), expecting(Held("x", "n1", Cores(4))))
		same(t, "the second allocation", again, first)
		same(t, "the third allocation", s.match(t, 1, Slots("a", 1, Cores(2))), first)
	}},
	"its keys and those of jobs do not meet": {needs: expects, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.places(t, 1, Slots("a", 2, Cores(1)), "x@n1 y@n1", keys("x", "y"), expecting(Held("x", "n1", Cores(1)), Held("x", "n1", Cores(1))))
		s.refuses(t, 2, Slots("a", 1, Cores(2)), match.ErrBusy, expecting(Held("x", "n1", Cores(1))))
		s.places(t, 2, Slots("a", 1, Cores(2)), "0@n1")
	}},
	"a node that somebody is about to come to is not whole": {needs: both(expects, wholeNodes), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n2", wanting("us"), expecting(Held("x", "n1", Cores(1))))
		s.places(t, 2, Slots("a", 1, Cores(1)), "0@n1", wanting("them"), expecting(Shared(Held("x", "n1", Cores(1)))))
	}},
	"what is expected of no node is invalid":        invalidExpectation(Held("x", "", Cores(1))),
	"what is expected with no resources is invalid": invalidExpectation(match.Slot{Key: "x", Node: "n1"}),
	"an amount below 0 is not expected":             invalidExpectation(Held("x", "n1", Cores(-1))),
}

// invalidExpectation returns the rule that a request with this expected slot is match.ErrInvalid.
func invalidExpectation(slot match.Slot) rule {
	r := invalid(1, Slots("a", 1, Cores(1)), expecting(slot))
	r.needs = expects
	return r
}
