package matchtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

var operationRules = map[string]rule{
	"satisfiability counts as if nobody held anything and books nothing": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.match(t, 1, Slots("a", 2, Cores(2)))
		for range 2 {
			if _, err := s.try(t.Context(), 2, Slots("b", 2, Cores(2)), as(match.Satisfiability)); err != nil {
				t.Errorf("Match() = %v, want it to be satisfiable", err)
			}
		}
		s.refuses(t, 2, Slots("b", 3, Cores(2)), match.ErrUnsatisfiable, as(match.Satisfiability))
		s.holding(t, "1: 0@n1 1@n2")
	}},
	"satisfiability counts nodes that are down": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.setStatus(t, "n1", resource.Down)
		if _, err := s.try(t.Context(), 2, Slots("b", 1, Cores(2)), as(match.Satisfiability)); err != nil {
			t.Errorf("Match() = %v, want it to be satisfiable", err)
		}
	}},
	"without allocating answers as allocate would and books nothing": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(2)))
		a := s.places(t, 2, Slots("b", 2, Cores(1)), "x@n2 y@n2", keys("x", "y"), as(match.WithoutAllocating))
		same(t, "the whole", Amounts(a.R), map[string]int64{"core": 2000})
		s.holding(t, "1: 0@n1")
		s.refuses(t, 3, Slots("b", 2, Cores(2)), match.ErrBusy, as(match.WithoutAllocating))
		s.refuses(t, 3, Slots("b", 3, Cores(2)), match.ErrUnsatisfiable, as(match.WithoutAllocating))
		s.places(t, 2, Slots("b", 2, Cores(1)), "x@n2 y@n2", keys("x", "y"))
	}},
	"ignored jobs count as if they held nothing, and hold on": {needs: ignores, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(2)))
		s.match(t, 2, Slots("a", 1, Cores(2)))
		s.places(t, 3, Slots("b", 1, Cores(2)), "0@n2", as(match.WithoutAllocating), without(2, 2, 77))
		s.refuses(t, 3, Slots("b", 2, Cores(2)), match.ErrBusy, as(match.WithoutAllocating), without(2))
		s.places(t, 3, Slots("b", 2, Cores(2)), "0@n1 1@n2", as(match.WithoutAllocating), without(1, 2))
		s.holding(t, "1: 0@n1; 2: 0@n2")
		s.refuses(t, 3, Slots("b", 1, Cores(1)), match.ErrBusy)
	}},
	"a job that ignores itself is asked for anew": {needs: ignores, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, Slots("a", 1, Cores(3)))
		s.places(t, 1, Slots("b", 2, Cores(2)), "0@n1 1@n1", as(match.WithoutAllocating), without(1))
		s.holding(t, "1: 0@n1")
	}},
	"a request that books ignores no job that holds something": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 71, Slots("a", 1, Cores(2)))
		for _, op := range []match.Op{match.Allocate, match.AllocateOrElseReserve} {
			_, err := s.try(t.Context(), 2, Slots("b", 1, Cores(2)), as(op), without(77, 71))
			if !errors.Is(err, match.ErrInvalid) || op == match.Allocate && !strings.Contains(err.Error(), "71") {
				t.Errorf("Match() = %v, want the error %q that names job 71", err, match.ErrInvalid)
			}
		}
		s.holding(t, "71: 0@n1")
	}},
	"a request that books does not ignore its own job": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.fails(t, 2, Slots("b", 1, Cores(2)), match.ErrInvalid, without(77, 2))
		s.match(t, 2, Slots("b", 1, Cores(2)))
		s.fails(t, 2, Slots("b", 1, Cores(2)), match.ErrInvalid, without(2))
		s.holding(t, "2: 0@n1")
	}},
	"a request that books skips jobs that have nothing to ignore": {needs: ignores, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.match(t, 1, Slots("a", 1, Cores(2)))
		s.places(t, 2, Slots("b", 1, Cores(2)), "0@n2", without(77, 77, 78))
		s.refuses(t, 3, Slots("b", 1, Cores(2)), match.ErrBusy, without(77))
	}},
	"what a request that books ignores does not make it another request": {needs: ignores, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		first := s.match(t, 1, Slots("a", 1, Cores(2)), without(77))
		same(t, "the second answer", s.match(t, 1, Slots("a", 1, Cores(2)), without(78, 79)), first)
		s.match(t, 77, Slots("a", 1, Cores(2)))
		same(t, "the answer after an ignored job was given something", s.match(t, 1, Slots("a", 1, Cores(2)), without(77)), first)
		s.fails(t, 1, Slots("a", 1, Cores(1)), match.ErrConflict, without(77))
	}},
}
