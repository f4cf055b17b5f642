package matchtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Together sets the topology of the slots of all labels, and returns js.
func Together(js *jobspec.Jobspec, at jobspec.Topology) *jobspec.Jobspec {
	for _, r := range js.Resources {
		a := js.Attributes.System.Fluence[r.Label]
		a.Topology = &at
		Constrain(js, r.Label, a)
	}
	return js
}

// inBlocks returns four racks in two blocks. Each rack has one node, with these cores.
func inBlocks(r1, r2, r3, r4 int64) []*resource.Graph {
	return []*resource.Graph{
		Node("n1", [][2]string{{"block", "b1"}, {"rack", "r1"}}, Cores(r1)),
		Node("n2", [][2]string{{"block", "b1"}, {"rack", "r2"}}, Cores(r2)),
		Node("n3", [][2]string{{"block", "b2"}, {"rack", "r3"}}, Cores(r3)),
		Node("n4", [][2]string{{"block", "b2"}, {"rack", "r4"}}, Cores(r4)),
	}
}

// The topologies that the rules use.
var (
	inOneRack  = jobspec.Topology{Required: "rack"}
	inOneBlock = jobspec.Topology{Required: "block"}
	fewRacks   = jobspec.Topology{Preferred: []string{"rack"}}
	evenRacks  = jobspec.Topology{Balanced: "rack"}
	evenBlocks = jobspec.Topology{Balanced: "block"}
)

var topologyRules = map[string]rule{
	"a required level holds all slots in one of its vertices": {needs: topology, test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(2, 2, 1, 3)...)
		s.places(t, 1, Together(Slots("a", 3, Cores(1)), inOneRack), "0@n4 1@n4 2@n4")
	}},
	"what fits only across a required level is busy, or never": {needs: topology, test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(4, 2, 3, 3)...)
		s.match(t, 1, Slots("x", 2, Cores(1)))
		r := s.refuses(t, 2, Together(Slots("a", 4, Cores(1)), inOneRack), match.ErrBusy)
		if s.can.Reasons {
			r.Blocker = nil
			same(t, "the reason", r, match.Reason{
				Code: match.TooFew, Slot: "a", Level: "rack", Vertex: "r3", Wanted: 4, Found: 3, Nodes: 4, WaitingHelps: true,
				Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 1000, MaxOnNode: 3000}},
			})
		}
		r = s.refuses(t, 2, Together(Slots("a", 5, Cores(1)), inOneRack), match.ErrUnsatisfiable)
		if s.can.Reasons {
			same(t, "the reason", r, match.Reason{
				Code: match.TooFew, Slot: "a", Level: "rack", Vertex: "r1", Wanted: 5, Found: 4, Nodes: 4,
				Shortages: []match.Shortage{{Type: "core", Unit: "m", Wanted: 1000, MaxOnNode: 4000}},
			})
		}
	}},
	"a refusal names the job whose end helps most where it is closest": {needs: both(reasons, topology), test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(4, 5, 2, 2)...)
		s.match(t, 1, Constrain(Slots("x", 1, Cores(1)), "x", jobspec.SlotAttributes{Constraints: Hosts("n2")}))
		s.match(t, 2, Constrain(Slots("x", 1, Cores(2)), "x", jobspec.SlotAttributes{Constraints: Hosts("n2")}))
		s.match(t, 3, Constrain(Slots("x", 1, Cores(3)), "x", jobspec.SlotAttributes{Constraints: Hosts("n1")}))
		r := s.refuses(t, 4, Together(Slots("a", 4, Cores(1)), inOneRack), match.ErrBusy)
		same(t, "where it is closest", []any{r.Level, r.Vertex, r.Found}, []any{"rack", "r2", int64(2)})
		same(t, "the end", r.Blocker, &match.Blocker{Job: 2, MoreSlots: 2})
		// The search for the blocker has changed nothing.
		s.places(t, 5, Together(Slots("a", 2, Cores(1)), inOneRack), "0@n2 1@n2")
	}},
	"the fullest vertex that has room is taken, and else the first by path": {needs: topology, test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(4, 3, 2, 2)...)
		s.places(t, 1, Together(Slots("a", 2, Cores(1)), inOneRack), "0@n3 1@n3")
		s.places(t, 2, Together(Slots("a", 3, Cores(1)), fewRacks), "0@n2 1@n2 2@n2")
	}},
	"near nodes come before the fullest vertex": {needs: both(near, topology), test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(4, 3, 2, 2)...)
		s.places(t, 1, Together(Slots("a", 2, Cores(1)), inOneRack), "0@n1 1@n1", nearTo("n1"))
	}},
	"slots of all labels stand together": {needs: both(shapes, topology), test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(3, 1, 2, 4)...)
		s.places(t, 1, Together(mixed(1, 3), inOneRack), "0@n4 1@n4 2@n4 3@n4")
		s.refuses(t, 2, Together(mixed(2, 3), inOneRack), match.ErrUnsatisfiable)
	}},
	"as few vertices as possible are used of a preferred level": {needs: topology, test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(1, 3, 2, 4)...)
		s.places(t, 1, Together(Slots("a", 6, Cores(1)), fewRacks), "0@n3 1@n3 2@n4 3@n4 4@n4 5@n4")
	}},
	"what fits only across a preferred level stands across it": {needs: topology, test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(1, 1, 1, 1)...)
		s.places(t, 1, Together(Slots("a", 4, Cores(1)), fewRacks), "0@n1 1@n2 2@n3 3@n4")
	}},
	"the first preferred level comes before the second": {needs: topology, test: func(t *testing.T, s *subject) {
		s.load(t,
			Node("n1", [][2]string{{"block", "b1"}, {"rack", "r1"}}, Cores(1)),
			Node("n2", [][2]string{{"block", "b1"}, {"rack", "r2"}}, Cores(1)),
			Node("n3", [][2]string{{"block", "b1"}, {"rack", "r3"}}, Cores(2)),
			Node("n4", [][2]string{{"block", "b2"}, {"rack", "r4"}}, Cores(2)),
		)
		s.places(t, 1, Together(Slots("a", 4, Cores(1)), jobspec.Topology{Preferred: []string{"block", "rack"}}), "0@n1 1@n2 2@n3 3@n3")
		s.release(t, 1)
		s.places(t, 1, Together(Slots("a", 4, Cores(1)), fewRacks), "0@n3 1@n3 2@n4 3@n4")
	}},
	"shares of a balanced level differ by one at the most": {needs: topology, test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(4, 4, 4, 4)...)
		s.places(t, 1, Together(Slots("a", 4, Cores(1)), evenRacks), "0@n1 1@n1 2@n1 3@n1")
		s.release(t, 1)
		s.places(t, 1, Together(Slots("a", 7, Cores(1)), evenRacks), "0@n1 1@n1 2@n1 3@n1 4@n2 5@n2 6@n2")
		s.release(t, 1)
		s.places(t, 1, Together(Slots("a", 12, Cores(1)), evenBlocks),
			"0@n1 1@n1 2@n1 3@n1 4@n2 5@n2 6@n3 7@n3 8@n3 9@n3 10@n4 11@n4")
	}},
	"what cannot be balanced is refused": {needs: topology, test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(1, 5, 1, 1)...)
		r := s.refuses(t, 1, Together(Slots("a", 8, Cores(1)), evenRacks), match.ErrUnsatisfiable)
		if s.can.Reasons {
			same(t, "the reason", []any{r.Code, r.Level, r.Vertex, r.Found}, []any{match.TooFew, "rack", "r2", int64(5)})
		}
		s.places(t, 1, Together(Slots("a", 4, Cores(1)), evenRacks), "0@n2 1@n2 2@n2 3@n2")
		s.release(t, 1)
		s.match(t, 1, Slots("x", 2, Cores(1)))
		s.refuses(t, 2, Together(Slots("a", 6, Cores(1)), evenBlocks), match.ErrBusy)
	}},
	"a preferred level counts within the required one": {needs: topology, test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(2, 2, 1, 3)...)
		s.places(t, 1, Together(Slots("a", 3, Cores(1)), jobspec.Topology{Required: "block", Preferred: []string{"rack"}}), "0@n4 1@n4 2@n4")
	}},
	"a balanced level counts within the required one": {needs: topology, test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(3, 1, 2, 2)...)
		s.places(t, 1, Together(Slots("a", 4, Cores(1)), jobspec.Topology{Required: "block", Balanced: "rack"}), "0@n3 1@n3 2@n4 3@n4")
	}},
	"a range is filled as far as the topology allows": {needs: both(ranges, topology), test: func(t *testing.T, s *subject) {
		range9 := func(at jobspec.Topology) *jobspec.Jobspec {
			return Together(Jobspec(Slot("a", jobspec.Between(2, 9), Cores(1))), at)
		}
		s.load(t, inBlocks(2, 1, 4, 1)...)
		s.places(t, 1, range9(inOneRack), "0@n3 1@n3 2@n3 3@n3")
		s.release(t, 1)
		s.places(t, 1, range9(inOneBlock), "0@n3 1@n3 2@n3 3@n3 4@n4")
		s.release(t, 1)
		s.places(t, 1, range9(fewRacks), "0@n1 1@n1 2@n2 3@n3 4@n3 5@n3 6@n3 7@n4")
		s.release(t, 1)
		s.places(t, 1, range9(evenRacks), "0@n1 1@n1 2@n2 3@n3 4@n3 5@n4")
	}},
	"limits hold within a topology": {needs: both(limits, topology), test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(9, 1, 2, 2)...)
		js := Limited(Slots("a", 4, Cores(1)), "a", jobspec.Limit{Name: "l", Level: "rack", Most: 2})
		s.places(t, 1, Together(js, inOneBlock), "0@n3 1@n3 2@n4 3@n4")
	}},
	"a level that the graph lacks is invalid, and those there are are named": {needs: topology, test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(1, 1, 1, 1)...)
		for _, at := range []jobspec.Topology{{Required: "row"}, {Preferred: []string{"rack", "row"}}, {Balanced: "row"}} {
			_, err := s.try(t.Context(), 1, Together(Slots("a", 1, Cores(1)), at))
			if !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), `"row"`) || !strings.Contains(err.Error(), "block, rack, node") {
				t.Errorf("Match() = %v, want the error %q with the levels", err, match.ErrInvalid)
			}
		}
	}},
	"a topology that asks for nothing is invalid": {test: func(t *testing.T, s *subject) {
		s.load(t, inBlocks(1, 1, 1, 1)...)
		s.fails(t, 1, Together(Slots("a", 1, Cores(1)), jobspec.Topology{}), match.ErrInvalid)
	}},
	"an engine that takes no topology says so": {test: func(t *testing.T, s *subject) {
		if s.can.Topology {
			t.Skip("this engine takes a topology")
		}
		s.load(t, inBlocks(1, 1, 1, 1)...)
		s.fails(t, 1, Together(Slots("a", 1, Cores(1)), inOneRack), match.ErrInvalid)
	}},
}
