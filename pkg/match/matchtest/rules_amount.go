package matchtest

import (
	"math"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

var amountRules = map[string]rule{
	"pools are divided exactly": {needs: divisible, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2), Bytes(1000)))
		a := s.match(t, 1, Slots("a", 8, MilliCores(250), Bytes(125)))
		if len(a.Slots) != 8 {
			t.Fatalf("%d slots, want 8", len(a.Slots))
		}
		same(t, "the whole", Amounts(a.R), map[string]int64{"core": 2000, "memory": 1000})
		s.refuses(t, 2, Slots("a", 1, Bytes(1)), match.ErrBusy)
		s.refuses(t, 2, Slots("a", 1, MilliCores(1)), match.ErrBusy)
	}},
	"the rest of a pool that fits no slot stays free": {needs: divisible, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, MilliCores(1000)), Node("n2", nil, MilliCores(1000)))
		s.places(t, 1, Slots("a", 6, MilliCores(300)), "0@n1 1@n1 2@n1 3@n2 4@n2 5@n2")
		s.places(t, 2, Slots("a", 2, MilliCores(100)), "0@n1 1@n2")
	}},
	"the largest amounts do not overflow": {needs: divisible, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Bytes(math.MaxInt64)), Node("n2", nil, Bytes(math.MaxInt64)), Node("n3", nil, Bytes(1)))
		s.places(t, 1, Slots("a", 2, Bytes(math.MaxInt64)), "0@n1 1@n2")
		s.refuses(t, 2, Slots("a", 2, Bytes(1)), match.ErrBusy)
		s.refuses(t, 2, Slots("a", 3, Bytes(math.MaxInt64)), match.ErrUnsatisfiable)
		s.places(t, 2, Slots("a", 1, Bytes(1)), "0@n3")
		s.release(t, 1)
		s.places(t, 1, Slots("a", 4, Bytes(math.MaxInt64/2)), "0@n1 1@n1 2@n2 3@n2")
	}},
	"the largest amounts of several shapes do not overflow": {needs: both(divisible, shapes), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Bytes(math.MaxInt64)), Node("n2", nil, Bytes(math.MaxInt64)))
		js := Jobspec(
			Slot("a", jobspec.Exactly(2), Bytes(math.MaxInt64-1)),
			Slot("b", jobspec.Exactly(2), Bytes(1)),
		)
		s.places(t, 1, js, "0@n1 1@n2 2@n1 3@n2")
		s.release(t, 1)
		js = Jobspec(
			Slot("a", jobspec.Exactly(2), Bytes(math.MaxInt64-1)),
			Slot("b", jobspec.Exactly(2), Bytes(2)),
		)
		s.refuses(t, 1, js, match.ErrUnsatisfiable)
	}},
	"more held than an amount can say still weighs, and is given back": {needs: both(divisible, updates), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Bytes(math.MaxInt64)))
		for id := match.JobID(1); id <= 4; id++ {
			s.update(t, id, Held("a", "n1", Bytes(math.MaxInt64)))
		}
		for id := match.JobID(1); id <= 4; id++ {
			s.refuses(t, 9, Slots("a", 1, Bytes(1)), match.ErrBusy)
			s.release(t, id)
		}
		s.places(t, 9, Slots("a", 1, Bytes(math.MaxInt64)), "0@n1")
	}},
}
