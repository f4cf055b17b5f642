package matchtest

import (
	"errors"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

var nodeRules = map[string]rule{
	"a node that is put is used at once": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(1)))
		s.refuses(t, 1, Slots("a", 2, Cores(1)), match.ErrUnsatisfiable)
		s.put(t, Node("n2", nil, Cores(1)))
		s.places(t, 1, Slots("a", 2, Cores(1)), "0@n1 1@n2")
	}},
	"pools are brought up to date": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(1), GPUs(1)), Node("n2", nil, GPUs(1)))
		s.put(t, Node("n1", nil, Cores(2), Memory(1)))
		s.places(t, 1, Slots("a", 1, Cores(2), Memory(1)), "0@n1")
		s.places(t, 2, Slots("a", 1, GPUs(1)), "0@n2")
		s.refuses(t, 3, Slots("a", 2, GPUs(1)), match.ErrUnsatisfiable)
	}},
	"what is held stays held while a node changes": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4)))
		s.match(t, 1, Slots("a", 1, Cores(3)))
		s.put(t, Node("n1", nil, Cores(2)))
		s.holding(t, "1: 0@n1")
		s.refuses(t, 2, Slots("a", 1, Cores(1)), match.ErrBusy)
		s.put(t, Node("n1", nil, Cores(4)))
		s.places(t, 2, Slots("a", 1, Cores(1)), "0@n1")
		s.refuses(t, 3, Slots("a", 1, Cores(1)), match.ErrBusy)
	}},
	"a pool that goes and comes back is held as before": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(4), GPUs(2)))
		s.match(t, 1, Slots("a", 1, GPUs(1)))
		s.put(t, Node("n1", nil, Cores(4)))
		s.put(t, Node("n1", nil, Cores(4), GPUs(2)))
		s.refuses(t, 2, Slots("a", 1, GPUs(2)), match.ErrBusy)
		s.release(t, 1)
		s.places(t, 2, Slots("a", 1, GPUs(2)), "0@n1")
	}},
	"a node moves to another rack with what is held on it": {needs: near, test: func(t *testing.T, s *subject) {
		s.load(t, inRacks()...)
		s.match(t, 1, Slots("a", 1, Cores(3)))
		s.put(t, Node("n1", [][2]string{{"zone", "z"}, {"rack", "r2"}}, Cores(4)))
		s.holding(t, "1: 0@n1")
		a := s.places(t, 2, Slots("b", 4, Cores(1)), "0@n4 1@n4 2@n4 3@n4", nearTo("n4"))
		s.places(t, 3, Slots("b", 2, Cores(1)), "0@n1 1@n3", nearTo("n4"))
		emitted(t, a.R, Cluster, "z", "r2", "n4", "core0")
		s.release(t, 1)
		s.places(t, 4, Slots("b", 1, Cores(3)), "0@n1", nearTo("n1"))
	}},
	"a node that was removed is not used": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		s.remove(t, "n1")
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n2")
		s.refuses(t, 2, Slots("a", 2, Cores(2)), match.ErrUnsatisfiable)
	}},
	"what is held on a removed node is held until it is released": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		js := Slots("a", 2, Cores(1))
		s.match(t, 1, js)
		s.remove(t, "n1")
		s.holding(t, "1: 0@n1 1@n1")
		s.put(t, Node("n1", nil, Cores(2)))
		s.places(t, 2, Slots("a", 2, Cores(1)), "0@n2 1@n2")
		s.refuses(t, 3, Slots("a", 1, Cores(1)), match.ErrBusy)
		s.remove(t, "n1")
		s.release(t, 1)
		s.holding(t, "2: 0@n2 1@n2")
		s.put(t, Node("n1", nil, Cores(2)))
		s.places(t, 3, Slots("a", 1, Cores(2)), "0@n1")
	}},
	"to remove a node that is not there is no error": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)))
		s.remove(t, "n2")
		s.remove(t, "n1")
		s.remove(t, "n1")
	}},
	"the last node can go and another graph come": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", [][2]string{{"zone", "z"}}, Cores(2)))
		s.remove(t, "n1")
		s.refuses(t, 1, Slots("a", 1, Cores(1)), match.ErrUnsatisfiable)
		s.put(t, uprooted(Node("n1", nil, Cores(2))))
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n1")
	}},
	"down touches no slot that is held": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(2)), Node("n2", nil, Cores(2)))
		js := Slots("a", 1, Cores(1))
		first := s.match(t, 1, js)
		s.setStatus(t, "n1", resource.Down)
		s.holding(t, "1: 0@n1")
		same(t, "the allocation", s.match(t, 1, js), first)
		s.places(t, 2, Slots("a", 1, Cores(1)), "0@n2")
		s.setStatus(t, "n1", resource.Up)
		s.places(t, 3, Slots("a", 1, Cores(1)), "0@n1")
		s.refuses(t, 4, Slots("a", 1, Cores(2)), match.ErrBusy)
	}},
	"a node is put with its status": {test: func(t *testing.T, s *subject) {
		s.load(t, WithStatus(Node("n1", nil, Cores(1)), resource.Down), Node("n2", nil, Cores(1)))
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n2")
		s.put(t, Node("n1", nil, Cores(1)))
		s.places(t, 2, Slots("a", 1, Cores(1)), "0@n1")
		s.put(t, WithStatus(Node("n1", nil, Cores(9)), resource.Down))
		s.refuses(t, 3, Slots("a", 1, Cores(1)), match.ErrBusy)
	}},
	"properties are brought up to date": {needs: constraints, test: func(t *testing.T, s *subject) {
		fast := Slots("a", 1, Cores(1))
		fast.Attributes.System.Constraints = &jobspec.Constraint{Op: jobspec.OpProperties, Values: []string{"fast"}}
		s.load(t, Node("n1", nil, Cores(4)))
		s.refuses(t, 1, fast, match.ErrUnsatisfiable)
		s.put(t, WithProperties(Node("n1", nil, Cores(4)), "fast", "yes"))
		s.places(t, 1, fast, "0@n1")
		s.put(t, Node("n1", nil, Cores(4)))
		s.refuses(t, 2, fast, match.ErrUnsatisfiable)
	}},
	"the status of a node that is not there is invalid": {test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(1)))
		if err := s.SetStatus(t.Context(), s.epoch, "n2", resource.Down); !errors.Is(err, match.ErrInvalid) {
			t.Errorf("SetStatus() = %v, want the error %q", err, match.ErrInvalid)
		}
	}},
	"a graph without a node is invalid": badGraph(func(g *resource.Graph) {
		g.Vertices, g.Edges = g.Vertices[:1], nil
	}),
	"a graph with two nodes is invalid": badGraph(func(g *resource.Graph) {
		g.Hang(0, resource.Vertex{Type: resource.TypeNode, Name: "n9"})
	}),
	"a graph that is no tree is invalid": badGraph(func(g *resource.Graph) {
		g.Edges = append(g.Edges, resource.Edge{Source: 0, Target: 2, Subsystem: resource.Containment})
	}),
	"a graph with a vertex beside the node's way is invalid": badGraph(func(g *resource.Graph) {
		g.Hang(0, resource.Vertex{Type: "rack", Name: "r9"})
	}),
	"a pool of a size below 0 is invalid":   badGraph(func(g *resource.Graph) { g.Vertices[2].Size = -1 }),
	"a graph below another root is invalid": badGraph(func(g *resource.Graph) { uprooted(g) }),
}

// uprooted gives the root of g another name, and returns g.
func uprooted(g *resource.Graph) *resource.Graph {
	g.Vertices[0].Name = "elsewhere"
	for i := range g.Vertices {
		v := &g.Vertices[i]
		v.Path = "/elsewhere" + v.Path[len("/"+Cluster):]
	}
	return g
}

// badGraph returns the rule that a graph is match.ErrInvalid after a change, and that nothing of
// the same call was put.
func badGraph(change func(g *resource.Graph)) rule {
	return rule{test: func(t *testing.T, s *subject) {
		s.load(t, Node("n1", nil, Cores(1)))
		bad := Node("n3", nil, Cores(1))
		change(bad)
		if err := s.PutNode(t.Context(), s.epoch, Node("n2", nil, Cores(1)), bad); !errors.Is(err, match.ErrInvalid) {
			t.Errorf("PutNode() = %v, want the error %q", err, match.ErrInvalid)
		}
		s.refuses(t, 1, Slots("a", 2, Cores(1)), match.ErrUnsatisfiable)
	}}
}
