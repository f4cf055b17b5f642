package matchtest

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

var narrowRules = map[string]rule{
	"slots stand only where their constraints hold": {needs: constraints, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Constrain(Slots("a", 2, Cores(4)), "a", jobspec.SlotAttributes{Constraints: Hosts("n[2-3]")})
		s.places(t, 1, js, "0@n2 1@n3")
	}},
	"slots stand only where the constraints of the whole jobspec hold": {needs: constraints, test: func(t *testing.T, s *subject) {
		s.load(t,
			WithProperties(Node("n1", nil, Cores(1)), "slow", ""),
			WithProperties(Node("n2", nil, Cores(1)), "fast", ""),
			Node("n3", nil, Cores(1)),
		)
		js := Slots("a", 1, Cores(1))
		js.Attributes.System.Constraints = &jobspec.Constraint{Op: jobspec.OpProperties, Values: []string{"^slow"}}
		js = Constrain(js, "a", jobspec.SlotAttributes{Constraints: Not(Hosts("n2"))})
		s.places(t, 1, js, "0@n3")
	}},
	"each label has its own constraints": {needs: both(shapes, constraints), test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Jobspec(Slot("a", jobspec.Exactly(1), Cores(1)), Slot("b", jobspec.Exactly(1), Cores(1)))
		js = Constrain(js, "a", jobspec.SlotAttributes{Constraints: Hosts("n4")})
		js = Constrain(js, "b", jobspec.SlotAttributes{ConstraintsNow: Not(Hosts("n1", "n2"))})
		s.places(t, 1, js, "0@n4 1@n3")
	}},
	"a shape makes way for one that is kept to its node": {needs: both(shapes, constraints), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		js := Jobspec(Slot("a", jobspec.Exactly(1), Cores(2)), Slot("b", jobspec.Exactly(1), Cores(2)))
		js = Constrain(js, "b", jobspec.SlotAttributes{Constraints: Hosts("n1")})
		s.places(t, 1, js, "0@n2 1@n1")
	}},
	"slots spread over unequal nodes to leave another its place": {needs: both(shapes, constraints), test: func(t *testing.T, s *subject) {
		// y needs 2 cores of n1. If one slot of x is on n1, the room there equals n2's.
		s.load(t, Node("n1", nil, Cores(3), Memory(3)), Node("n2", nil, Cores(2), Memory(2)), Node("n3", nil, Cores(10)))
		js := Jobspec(Slot("x", jobspec.Exactly(3), Cores(1), Memory(1)), Slot("y", jobspec.Exactly(1), Cores(2)))
		js = Constrain(js, "y", jobspec.SlotAttributes{Constraints: Hosts("n1")})
		s.places(t, 1, js, "0@n1 1@n2 2@n2 3@n1")
	}},
	"constraints for good count in a verdict of never": {needs: constraints, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Constrain(Slots("a", 3, Cores(4)), "a", jobspec.SlotAttributes{Constraints: Hosts("n1,n2")})
		r := s.refuses(t, 1, js, match.ErrUnsatisfiable)
		if s.can.Reasons {
			same(t, "the reason", r, match.Reason{
				Code: match.TooFew, Slot: "a", Level: "cluster", Wanted: 3, Found: 2, Nodes: 4, Excluded: 2,
				// Each node has enough for one slot, and no node has less: Nodes is 0.
				Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 4000, MaxOnNode: 4000}},
			})
		}
	}},
	"constraints for the present do not": {needs: constraints, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		js := Constrain(Slots("a", 3, Cores(4)), "a", jobspec.SlotAttributes{ConstraintsNow: Hosts("n1,n2")})
		r := s.refuses(t, 1, js, match.ErrBusy)
		if s.can.Reasons {
			r.Blocker = nil
			same(t, "the reason", r, match.Reason{
				Code: match.TooFew, Slot: "a", Level: "cluster", Wanted: 3, Found: 2, Nodes: 4, Excluded: 2, WaitingHelps: true,
				Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 4000, MaxOnNode: 4000}},
			})
		}
		if _, err := s.try(t.Context(), 1, js, as(match.Satisfiability)); err != nil {
			t.Errorf("Match() = %v, want it to be satisfiable", err)
		}
	}},
	"no more slots stand below a vertex than its level may have": {needs: maxPerLevel, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		perNode := Constrain(Slots("a", 4, Cores(1)), "a", jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"node": 1}})
		s.places(t, 1, perNode, "0@n1 1@n2 2@n3 3@n4")
		perRack := Constrain(Slots("a", 4, Cores(1)), "a", jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"rack": 2}})
		s.places(t, 2, perRack, "0@n1 1@n1 2@n3 3@n3")
		r := s.refuses(t, 3, Constrain(Slots("a", 5, Cores(1)), "a", jobspec.SlotAttributes{
			MaxPerLevel: map[string]int64{"rack": 2, "node": 2},
		}), match.ErrUnsatisfiable)
		if s.can.Reasons && (r.Code != match.TooFew || r.Found != 4) {
			t.Errorf("the reason is %+v, want TooFew with 4 found", r)
		}
	}},
	"a shape goes where it leaves the bound of another a place": {needs: both(shapes, maxPerLevel), test: func(t *testing.T, s *subject) {
		// By amounts all nodes are alike. But b can have one slot in each rack only if a is on n2 or n3.
		s.load(t,
			Node("n1", [][2]string{{"rack", "r1"}}, Cores(2)),
			Node("n2", [][2]string{{"rack", "r2"}}, Cores(2)),
			Node("n3", [][2]string{{"rack", "r2"}}, Cores(2)),
		)
		js := Jobspec(Slot("a", jobspec.Exactly(1), Cores(2)), Slot("b", jobspec.Exactly(2), Cores(2)))
		js = Constrain(js, "b", jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"rack": 1}})
		s.places(t, 1, js, "0@n2 1@n1 2@n3")
	}},
	"a bound counts the slots of one label in one request": {needs: both(shapes, maxPerLevel), test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)), Node("n2", nil, Cores(4)))
		js := Jobspec(Slot("a", jobspec.Exactly(2), Cores(1)), Slot("b", jobspec.Exactly(2), Cores(1)))
		js = Constrain(js, "a", jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"node": 1}})
		s.places(t, 1, js, "0@n1 1@n2 2@n1 3@n1")
		s.places(t, 2, js, "0@n1 1@n2 2@n2 3@n2")
	}},
}
