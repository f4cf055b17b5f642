package matchtest

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

var shapeRules = map[string]rule{
	"each slot request gets its own": {needs: shapes, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Jobspec(
			Slot("leader", jobspec.Exactly(1), Cores(4)),
			Slot("worker", jobspec.Exactly(3), Cores(1), Memory(2)),
		)
		a := s.places(t, 1, js, "l@n1 w0@n2 w1@n2 w2@n2", keys("l", "w0", "w1", "w2"))
		for i, want := range []string{"leader", "worker", "worker", "worker"} {
			if got := a.Slots[i].Label; got != want {
				t.Errorf("slot %s has the label %q, want %q", a.Slots[i].Key, got, want)
			}
		}
		same(t, "what the leader holds", Amounts(a.Slots[0].R), map[string]int64{"core": 4000})
		same(t, "what a worker holds", Amounts(a.Slots[3].R), map[string]int64{"core": 1000, "memory": 2 * GiB})
	}},
	"a large slot listed last still finds its place": {needs: shapes, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(3)))
		js := Jobspec(
			Slot("worker", jobspec.Exactly(3), Cores(1)),
			Slot("leader", jobspec.Exactly(1), Cores(4)),
		)
		s.places(t, 1, js, "w0@n2 w1@n2 w2@n2 l@n1", keys("w0", "w1", "w2", "l"))
	}},
	"shapes that fit only interleaved are found": {needs: shapes, test: func(t *testing.T, s *subject) {
		// If n1 has both slots of x, there is no room for z. If n1 has y, there is no room for x.
		s.load(t, Node("n1", nil, Cores(7), Memory(4)), Node("n2", nil, Cores(5), Memory(6)))
		js := Jobspec(
			Slot("x", jobspec.Exactly(2), Cores(3), Memory(2)),
			Slot("y", jobspec.Exactly(1), Cores(2), Memory(4)),
			Slot("z", jobspec.Exactly(1), Cores(4), Memory(2)),
		)
		s.places(t, 1, js, "x0@n1 x1@n2 y@n2 z@n1", keys("x0", "x1", "y", "z"))
	}},
	"several slot requests are given out together or not at all": {needs: shapes, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4), GPUs(1)), Node("n2", nil, Cores(4)))
		s.match(t, 1, Slots("a", 1, GPUs(1)))
		js := Jobspec(
			Slot("cpu", jobspec.Exactly(2), Cores(1)),
			Slot("gpu", jobspec.Exactly(1), GPUs(1)),
		)
		r := s.refuses(t, 2, js, match.ErrBusy)
		if s.can.Reasons && (r.Slot != "gpu" || r.Code != match.TooFew || r.Found != 0) {
			t.Errorf("the reason is %s (%+v), want it to name the slot gpu", r, r)
		}
		s.holding(t, "1: 0@n1")
		s.places(t, 3, Slots("a", 8, Cores(1)), "0@n1 1@n1 2@n1 3@n1 4@n2 5@n2 6@n2 7@n2")
	}},
	"shapes that can never fit together are told so": {needs: shapes, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(3)), Node("n2", nil, Cores(3)))
		// By amounts the slots would fit, 6 of 6 cores. By nodes they do not.
		js := Jobspec(
			Slot("x", jobspec.Exactly(2), Cores(2)),
			Slot("y", jobspec.Exactly(1), Cores(2)),
		)
		s.refuses(t, 1, js, match.ErrUnsatisfiable)
	}},
}

var rangeRules = map[string]rule{
	"a range takes as many as fit": {needs: ranges, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(1)))
		js := Jobspec(Slot("a", jobspec.Between(1, 5), Cores(1)))
		s.places(t, 1, js, "a@n1 b@n1 c@n2", keys("a", "b", "c", "d", "e"))
	}},
	"a range takes no more than its end": {needs: ranges, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(8)))
		s.places(t, 1, Jobspec(Slot("a", jobspec.Between(1, 2), Cores(1))), "0@n1 1@n1")
	}},
	"a range takes only what its operator steps on": {needs: ranges, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(7)), Node("n2", nil, Cores(4)))
		a := s.match(t, 1, Jobspec(Slot("a", jobspec.Count{Min: 1, Max: 100, Operator: '*', Operand: 2}, Cores(1))))
		if len(a.Slots) != 8 {
			t.Errorf("%d slots of 1, 2, 4, 8, ..., want 8", len(a.Slots))
		}
		s.places(t, 2, Slots("rest", 3, Cores(1)), "0@n2 1@n2 2@n2")
		s.release(t, 1)
		s.release(t, 2)
		s.places(t, 1, Jobspec(Slot("a", jobspec.Count{Min: 2, Max: 9, Operator: '+', Operand: 5}, Cores(1))),
			"0@n1 1@n1 2@n1 3@n1 4@n1 5@n1 6@n1")
		s.places(t, 2, Slots("rest", 4, Cores(1)), "0@n2 1@n2 2@n2 3@n2")
	}},
	"a range whose start does not fit is refused": {needs: ranges, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, Slots("a", 1, Cores(2)))
		r := s.refuses(t, 2, Jobspec(Slot("a", jobspec.Between(3, 9), Cores(1))), match.ErrBusy)
		if s.can.Reasons && (r.Wanted != 3 || r.Found != 2) {
			t.Errorf("wanted %d and found %d, want 3 and 2", r.Wanted, r.Found)
		}
	}},
	"every slot request gets its least before any gets more": {needs: both(ranges, shapes), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		js := Jobspec(
			Slot("a", jobspec.Between(1, 4), Cores(1)),
			Slot("b", jobspec.Between(2, 4), Cores(1)),
		)
		// The minimums take three cores, one for a and two for b. The last core goes to a, which is
		// listed first.
		s.places(t, 1, js, "a0@n1 a1@n1 b0@n1 b1@n1", keys("a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"))
	}},
	"a range is repeated as it was given out": {needs: ranges, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		js := Jobspec(Slot("a", jobspec.Between(1, 5), Cores(1)))
		s.places(t, 1, js, "0@n1 1@n1")
		s.put(t, Node("n2", nil, Cores(2)))
		s.places(t, 1, js, "0@n1 1@n1")
	}},
}
