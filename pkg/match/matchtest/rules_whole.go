package matchtest

import (
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// three returns three nodes of four cores.
func three() []*resource.Graph {
	return []*resource.Graph{Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)), Node("n3", nil, Cores(4))}
}

// one requests a slot of one core.
func one() *jobspec.Jobspec { return Slots("a", 1, Cores(1)) }

var wholeRules = map[string]rule{
	"nobody else is given anything on a whole node": {needs: wholeNodes, test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		s.places(t, 1, one(), "0@n1", wanting("x"))
		s.places(t, 2, one(), "0@n2")
		s.places(t, 3, one(), "0@n2", forHolder("y"))
		s.places(t, 4, one(), "0@n3", wanting("y"))
		s.places(t, 5, Slots("a", 2, Cores(1)), "0@n2 1@n2")
		s.refuses(t, 6, one(), match.ErrBusy)
		s.refuses(t, 6, one(), match.ErrBusy, wanting("z"))
	}},
	"each policy for whole nodes gives them, and to nobody else": {needs: wholeNodes, test: func(t *testing.T, s *subject) {
		for _, p := range match.Policies() {
			if !match.IsExclusive(p) || !slices.Contains(s.can.Policies, p) {
				continue
			}
			s.load(t, Node("n1", nil, Cores(4)))
			a := s.places(t, 1, one(), "0@n1", underPolicy(p), forHolder("x"))
			if a.Slots[0].Holder != "x" {
				t.Errorf("%s: the slot is of %q, want x", p, a.Slots[0].Holder)
			}
			s.refuses(t, 2, one(), match.ErrBusy, underPolicy(p), forHolder("y"))
			s.refuses(t, 2, one(), match.ErrBusy)
			s.fails(t, 3, one(), match.ErrInvalid, underPolicy(p))
		}
	}},
	"several slots stand on a whole node, and all are the holder's": {needs: wholeNodes, test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		a := s.places(t, 1, Slots("a", 5, Cores(1)), "0@n1 1@n1 2@n1 3@n1 4@n2", wanting("x"))
		for _, slot := range append(a.Slots, s.jobs(t)[0].Slots...) {
			if slot.Holder != "x" || slot.Shared {
				t.Errorf("slot %s is of %q, shared %v, want it to be of x", slot.Key, slot.Holder, slot.Shared)
			}
		}
		same(t, "what the job holds", Amounts(a.R), map[string]int64{"core": 5000})
	}},
	"a slot that leaves the rest of its node to others has no holder": {needs: wholeNodes, test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		if a := s.match(t, 1, one(), forHolder("x")); a.Slots[0].Holder != "" {
			t.Errorf("the slot is of %q", a.Slots[0].Holder)
		}
	}},
	"a node that others use is not given as a whole": {needs: wholeNodes, test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		s.match(t, 1, one(), forHolder("x"))
		s.places(t, 2, Slots("a", 8, Cores(1)), "0@n2 1@n2 2@n2 3@n2 4@n3 5@n3 6@n3 7@n3", wanting("x"))
		s.places(t, 3, one(), "0@n1")
		s.release(t, 2)
		s.release(t, 1)
		s.refuses(t, 2, Slots("a", 12, Cores(1)), match.ErrBusy, wanting("x"))
		s.release(t, 3)
		s.match(t, 2, Slots("a", 12, Cores(1)), wanting("x"))
	}},
	"a holder's other jobs share its nodes": {needs: wholeNodes, test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		s.match(t, 1, one(), wanting("x"))
		s.places(t, 2, one(), "0@n1", wanting("x"))
		s.places(t, 3, one(), "0@n1", forHolder("x"))
		// Job 3 is on behalf of x, but its slot has no holder.
		s.places(t, 4, one(), "0@n2", wanting("x"))
	}},
	"the node is free for others with the last slot of its holder": {needs: both(wholeNodes, partial), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, Slots("a", 2, Cores(1)), wanting("x"))
		s.match(t, 2, one(), wanting("x"))
		for _, give := range []func(){
			func() { s.release(t, 1, "0") },
			func() { s.release(t, 2) },
			func() { s.release(t, 1, "1") },
		} {
			s.refuses(t, 3, one(), match.ErrBusy)
			give()
		}
		s.places(t, 3, one(), "0@n1")
		s.release(t, 3)
		s.places(t, 4, Slots("a", 4, Cores(1)), "0@n1 1@n1 2@n1 3@n1", wanting("y"))
	}},
	"no holder and whole nodes is invalid, whatever the operation": {needs: wholeNodes, test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		for _, op := range []match.Op{match.Allocate, match.Satisfiability, match.WithoutAllocating} {
			s.fails(t, 1, one(), match.ErrInvalid, wanting(""), as(op))
		}
		s.holding(t, "")
	}},
	"another holder of the job is a conflict": {needs: wholeNodes, test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		first := s.match(t, 1, one(), wanting("x"))
		s.fails(t, 1, one(), match.ErrConflict, wanting("y"))
		s.fails(t, 1, one(), match.ErrConflict, forHolder("x"))
		same(t, "the repeat", s.match(t, 1, one(), wanting("x")), first)
	}},
	"satisfiability does not look at whose nodes are": {needs: wholeNodes, test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		s.match(t, 1, Slots("a", 3, Cores(4)), wanting("x"))
		s.match(t, 2, Slots("a", 12, Cores(1)), wanting("y"), as(match.Satisfiability))
		s.match(t, 2, Slots("a", 12, Cores(1)), as(match.Satisfiability))
		s.refuses(t, 2, Slots("a", 13, Cores(1)), match.ErrUnsatisfiable, wanting("y"), as(match.Satisfiability))
	}},
	"without allocating says whose the slots would be, and takes no node": {needs: wholeNodes, test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		a := s.places(t, 1, one(), "0@n1", wanting("x"), as(match.WithoutAllocating))
		if a.Slots[0].Holder != "x" {
			t.Errorf("the slot is of %q, want x", a.Slots[0].Holder)
		}
		s.places(t, 2, one(), "0@n1", wanting("y"))
		s.refuses(t, 1, one(), match.ErrBusy, wanting("x"), as(match.WithoutAllocating))
	}},
	"ignored jobs have no whole nodes, and have them again": {needs: both(wholeNodes, ignores), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, one(), wanting("x"))
		s.places(t, 2, one(), "0@n1", as(match.WithoutAllocating), without(1))
		s.places(t, 2, one(), "0@n1", wanting("y"), as(match.WithoutAllocating), without(1))
		s.refuses(t, 2, one(), match.ErrBusy)
		s.release(t, 1)
		s.match(t, 1, one())
		s.places(t, 2, one(), "0@n1", wanting("y"), as(match.WithoutAllocating), without(1))
		s.refuses(t, 2, one(), match.ErrBusy, wanting("y"))
	}},
	"shapes get whole nodes together": {needs: both(wholeNodes, shapes), test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		s.match(t, 1, one())
		js := Jobspec(Slot("l", jobspec.Exactly(1), Cores(4)), Slot("w", jobspec.Exactly(3), Cores(1)))
		s.places(t, 2, js, "0@n2 1@n3 2@n3 3@n3", wanting("x"))
		s.places(t, 3, Slots("a", 3, Cores(1)), "0@n1 1@n1 2@n1")
		s.refuses(t, 4, one(), match.ErrBusy)
	}},
	"a range takes no node that others use": {needs: both(wholeNodes, ranges), test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		s.match(t, 1, Slots("a", 1, Cores(3)))
		js := Jobspec(Slot("a", jobspec.Between(1, 12), Cores(2)))
		s.places(t, 2, js, "0@n2 1@n2 2@n3 3@n3", wanting("x"))
	}},
	"what is short is told by how many nodes are in use": {needs: both(wholeNodes, reasons), test: func(t *testing.T, s *subject) {
		s.load(t, append(three(), WithStatus(Node("n4", nil, Cores(4)), resource.Down))...)
		s.match(t, 1, Slots("a", 2, Cores(3)))
		r := s.refuses(t, 2, Slots("b", 2, Cores(4)), match.ErrBusy, wanting("x"))
		r.Blocker = nil
		same(t, "the reason", r, match.Reason{
			Code: match.TooFew, Slot: "b", Level: "cluster", Wanted: 2, Found: 1, Nodes: 4, Down: 1, InUse: 2, WaitingHelps: true,
			Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 4000, MaxOnNode: 4000}},
		})
	}},
	"what is short is told by how many nodes are others'": {needs: both(wholeNodes, reasons), test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		s.match(t, 1, Slots("a", 2, Cores(3)), wanting("x"))
		r := s.refuses(t, 2, Slots("b", 5, Cores(1)), match.ErrBusy)
		r.Blocker = nil
		same(t, "the reason", r, match.Reason{
			Code: match.TooFew, Slot: "b", Level: "cluster", Wanted: 5, Found: 4, Nodes: 3, OtherHolder: 2, WaitingHelps: true,
			Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 1000, MaxOnNode: 4000}},
		})
		s.match(t, 3, one())
		r = s.refuses(t, 2, one(), match.ErrBusy, wanting("y"))
		r.Blocker = nil
		same(t, "the reason where whole nodes are wanted", r, match.Reason{
			Code: match.TooFew, Slot: "a", Level: "cluster", Wanted: 1, Nodes: 3, OtherHolder: 2, InUse: 1, WaitingHelps: true,
		})
		r = s.refuses(t, 2, Slots("b", 1, Cores(5)), match.ErrUnsatisfiable)
		same(t, "the reason of never", r, match.Reason{
			Code: match.TooLarge, Slot: "b", Level: "node", Wanted: 1, Nodes: 3,
			Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 5000, MaxOnNode: 4000, Nodes: 3}},
		})
	}},
	"an excluded node does not count as others' too": {needs: both(both(wholeNodes, reasons), constraints), test: func(t *testing.T, s *subject) {
		s.load(t, three()...)
		s.match(t, 1, Slots("a", 2, Cores(4)), wanting("x"))
		js := Constrain(Slots("b", 1, Cores(1)), "b", jobspec.SlotAttributes{Constraints: Hosts("n[2]")})
		r := s.refuses(t, 2, js, match.ErrBusy)
		r.Blocker = nil
		same(t, "the reason", r, match.Reason{
			Code: match.TooFew, Slot: "b", Level: "cluster", Wanted: 1, Nodes: 3, Excluded: 2, OtherHolder: 1, WaitingHelps: true,
		})
	}},
	"waiting helps only as far as the nodes are up": {needs: both(wholeNodes, reasons), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		s.match(t, 1, one(), wanting("x"))
		s.setStatus(t, "n2", resource.Down)
		if r := s.refuses(t, 2, one(), match.ErrBusy); !r.WaitingHelps {
			t.Errorf("the reason %+v says that waiting for job 1 does not help", r)
		}
		if r := s.refuses(t, 2, Slots("a", 2, Cores(4)), match.ErrBusy); r.WaitingHelps {
			t.Errorf("the reason %+v says that waiting helps, with one of two nodes down", r)
		}
	}},
}
