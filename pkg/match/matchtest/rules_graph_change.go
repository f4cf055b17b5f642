package matchtest

import (
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

var graphStatusRules = map[string]graphRule{
	"a vertex that is down is not given out, nor what is below it": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		s.setStatus(t, "/cluster0/rack0", resource.Down)
		s.stands(t, 1, Slots("a", 2, whole("core", 4)), "0@node2 1@node3")
		s.refuse(t, 2, Slots("a", 1, whole("core", 1)), match.ErrBusy)
		s.setStatus(t, "/cluster0/rack0", resource.Up)
		s.stands(t, 2, Slots("a", 1, whole("core", 1)), "0@node0")
	},
	"a single core may be down": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.setStatus(t, "/cluster0/rack0/node0/core2", resource.Down)
		s.stands(t, 1, Slots("a", 1, whole("core", 4)), "0@node1")
		a := s.stands(t, 2, Slots("a", 1, whole("core", 3)), "0@node0")
		same(t, "the cores", leaves(pathsOf(a.R), "core"), cores(0, 0, 1, 3))
	},
	"a node is named by its path or by its name": func(t *testing.T, s *graphSubject) {
		for _, name := range []string{"node0", "/cluster0/rack0/node0"} {
			s.loadGraph(t, machine(1))
			s.setStatus(t, name, resource.Down)
			s.stands(t, 1, Slots("a", 1, whole("core", 1)), "0@node1")
		}
	},
	"what is held on a vertex that goes down stays held": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 2)))
		s.setStatus(t, "/cluster0/rack0/node0", resource.Down)
		s.holding(t, "1: 0@node0")
		s.release(t, 1)
		s.setStatus(t, "/cluster0/rack0/node0", resource.Up)
		s.stands(t, 2, Slots("a", 1, whole("core", 4)), "0@node0")
	},
	"a vertex that is not there is invalid": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		check := s.unchanged(t)
		for _, name := range []string{"/cluster0/rack9", "/cluster0/rack0/", "/", "node9"} {
			wantInvalid(t, "SetStatus()", s.SetStatus(t.Context(), s.epoch, name, resource.Down), name)
		}
		check()
	},
	"a graph brings its statuses": func(t *testing.T, s *graphSubject) {
		g := machine(1)
		for i := range g.Vertices {
			if g.Vertices[i].Name == "node0" {
				g.Vertices[i].Status = resource.Down
			}
		}
		s.loadGraph(t, g)
		s.stands(t, 1, Slots("a", 1, whole("core", 1)), "0@node1")
		same(t, "the nodes that are down", leaves(s.find(t, "status=down"), "node"), []string{"/rack0/node0"})
	},
}

// withoutRack and rackAlone are parts of machine(2). Together they are the whole graph.
func withoutRack() *resource.Graph {
	return part(machine(2), func(path string) bool { return !below(path, "/cluster0/rack1") })
}

func rackAlone() *resource.Graph {
	return part(machine(2), func(path string) bool { return path == "/cluster0" || below(path, "/cluster0/rack1") })
}

var graphChangeRules = map[string]graphRule{
	"a graph grows, and what is held stays held": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, withoutRack())
		s.give(t, 1, Slots("a", 2, whole("core", 4)))
		s.refuse(t, 2, Slots("a", 1, whole("core", 4)), match.ErrBusy)
		s.refuse(t, 2, Slots("a", 4, whole("core", 4)), match.ErrUnsatisfiable)
		s.add(t, rackAlone())
		s.holding(t, "1: 0@node0 1@node1")
		s.stands(t, 2, Slots("a", 2, whole("core", 4)), "0@node2 1@node3")
		s.refuse(t, 3, Slots("a", 4, whole("core", 4)), match.ErrBusy)
		s.release(t, 1)
		s.release(t, 2)
		s.stands(t, 3, Slots("a", 4, whole("core", 4)), "0@node0 1@node1 2@node2 3@node3")
	},
	"a graph made of parts is as one added whole": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		want := s.find(t, everything)
		s.reset(t)
		s.add(t, withoutRack())
		s.add(t, rackAlone())
		s.ready(t)
		got := s.find(t, everything)
		slices.Sort(got)
		slices.Sort(want)
		same(t, "the vertices", got, want)
	},
	"what is there already is not added twice": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		s.give(t, 1, Slots("a", 1, whole("core", 3)))
		before := s.find(t, everything)
		s.add(t, part(machine(1), func(path string) bool { return path == "/cluster0" || path == "/cluster0/rack0" }))
		same(t, "the vertices", s.find(t, everything), before)
		s.stands(t, 2, Slots("a", 1, whole("core", 4)), "0@node1")
		s.refuse(t, 3, Slots("a", 1, whole("core", 2)), match.ErrBusy)
	},
	"what is removed is given out no more": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		s.removeSubgraph(t, "/cluster0/rack0/node1")
		s.removeSubgraph(t, "/cluster0/rack1")
		same(t, "the nodes", leaves(s.find(t, everything), "node"), []string{"/rack0/node0"})
		same(t, "the cores", leaves(s.find(t, everything), "core"), cores(0, 0, 1, 2, 3))
		s.refuse(t, 1, Slots("a", 2, whole("core", 4)), match.ErrUnsatisfiable)
		s.stands(t, 1, Slots("a", 1, whole("core", 4)), "0@node0")
	},
	"what is removed can be added again": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		s.removeSubgraph(t, "/cluster0/rack1")
		s.add(t, rackAlone())
		s.stands(t, 1, Slots("a", 4, whole("core", 4)), "0@node0 1@node1 2@node2 3@node3")
	},
	"what jobs hold something in is not removed": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		s.give(t, 1, Slots("a", 1, whole("core", 1)))
		check := s.unchanged(t)
		for _, path := range []string{"/cluster0", "/cluster0/rack0", "/cluster0/rack0/node0", "/cluster0/rack0/node0/core0"} {
			wantInvalid(t, "RemoveSubgraph()", s.graphs.RemoveSubgraph(t.Context(), s.epoch, path), path)
		}
		check()
		s.removeSubgraph(t, "/cluster0/rack0/node0/core3")
		s.release(t, 1)
		s.removeSubgraph(t, "/cluster0/rack0/node0")
		s.stands(t, 2, Slots("a", 1, whole("core", 1)), "0@node1")
	},
	"a path that is not there is invalid": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		check := s.unchanged(t)
		for _, path := range []string{"/cluster0/rack7", "/cluster", "node0", "/", ""} {
			wantInvalid(t, "RemoveSubgraph()", s.graphs.RemoveSubgraph(t.Context(), s.epoch, path))
		}
		check()
	},
}
