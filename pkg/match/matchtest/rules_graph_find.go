package matchtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// searched loads machine(1). Node1 and a core of node0 are down, and a job holds another core of
// node0.
func (s *graphSubject) searched(t *testing.T) {
	t.Helper()
	s.loadGraph(t, machine(1))
	s.give(t, 1, Slots("a", 1, whole("core", 1)), lasting(time.Hour))
	s.setStatus(t, "/cluster0/rack0/node1", resource.Down)
	s.setStatus(t, "/cluster0/rack0/node0/core3", resource.Down)
}

var graphFindRules = map[string]graphRule{
	"criteria, and what meets them": func(t *testing.T, s *graphSubject) {
		s.searched(t)
		held := leaves(s.find(t, "sched-now=allocated"), "core")
		if len(held) != 1 || !strings.HasPrefix(held[0], "/rack0/node0/") {
			t.Fatalf("held is %q, want one core of node0", held)
		}
		free := cores(0, 0, 1, 2)
		free = slices.DeleteFunc(free, func(p string) bool { return p == held[0] })
		node0, node1 := cores(0, 0, 1, 2, 3), cores(1, 0, 1, 2, 3)
		down := append(cores(0, 3), node1...)
		for criteria, want := range map[string][]string{
			"status=up":                                          cores(0, 0, 1, 2),
			"status=down":                                        down,
			"status=up or status=down":                           append(slices.Clone(node0), node1...),
			"status=up and status=down":                          nil,
			"status=up sched-now=free":                           free,
			"status=up and sched-now=free":                       free,
			"sched-now=free and status=up":                       free,
			"sched-now=allocated or status=down":                 append(slices.Clone(held), down...),
			"(status=down or sched-now=allocated) and status=up": held,
			"status=up and (sched-now=allocated)":                held,
			"status=down sched-now=free or sched-now=allocated":  append(slices.Clone(held), down...),
			"sched-future=reserved":                              nil,
			"sched-future=free":                                  append(slices.Clone(node0), node1...),
		} {
			slices.Sort(want)
			same(t, "the cores that meet "+criteria, leaves(s.find(t, criteria), "core"), want)
		}
	},
	"each vertex comes after what it contains, up to the root": func(t *testing.T, s *graphSubject) {
		s.searched(t)
		for _, criteria := range []string{everything, "status=down", "sched-now=allocated"} {
			paths := s.find(t, criteria)
			if last := paths[len(paths)-1]; last != "/"+Cluster {
				t.Errorf("%s: the last vertex is %s, want the root", criteria, last)
			}
			for i, p := range paths {
				for _, later := range paths[i+1:] {
					if below(later, p) {
						t.Errorf("%s: %s comes before %s", criteria, p, later)
					}
				}
				if up := p[:strings.LastIndexByte(p, '/')]; up != "" && !slices.Contains(paths[i:], up) {
					t.Errorf("%s: %s is there, and %s, which it is in, is not", criteria, p, up)
				}
			}
		}
	},
	"vertices come with their sizes and what they are": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(1))
		found, err := s.graphs.Find(t.Context(), s.epoch, "status=up", Now)
		if err != nil {
			t.Fatal(err)
		}
		g := machine(1)
		want := map[string]resource.Vertex{}
		for _, v := range g.Vertices {
			want[v.Path] = v
		}
		for _, got := range found.Vertices {
			v := want[got.Path]
			if got.Type != v.Type || got.Name != v.Name || got.ID != v.ID || got.Rank != v.Rank || got.Size != v.Size || got.Amount != v.Size {
				t.Errorf("found is %+v, want %+v", got, v)
			}
		}
		if len(found.Vertices) != len(g.Vertices) {
			t.Errorf("%d vertices were found, want %d", len(found.Vertices), len(g.Vertices))
		}
	},
	"what is reserved is free now and not later": func(t *testing.T, s *graphSubject) {
		s.reserved(t)
		s.release(t, 1)
		same(t, "the cores that are held now", leaves(s.find(t, "sched-now=allocated"), "core"), []string{})
		same(t, "the cores that are reserved", len(leaves(s.find(t, "sched-future=reserved"), "core")), 8)
		same(t, "the cores that stay free", len(leaves(s.find(t, "sched-future=free"), "core")), 0)
	},
	"criteria that are none are invalid and named": func(t *testing.T, s *graphSubject) {
		s.searched(t)
		for _, criteria := range []string{
			"status=sideways", "colour=red", "status", "=up", "status=", "sched-now=reserved", "sched-future=allocated",
			"status=up and", "or status=up", "(status=up", "status=up)", "()", "not status=up", "status = up",
		} {
			found, err := s.graphs.Find(t.Context(), s.epoch, criteria, Now)
			if err == nil {
				t.Errorf("Find(%q) found %d vertices, want an error", criteria, len(found.Vertices))
				continue
			}
			wantInvalid(t, "Find("+criteria+")", err)
		}
		_, err := s.graphs.Find(t.Context(), s.epoch, "status=up and colour=red", Now)
		wantInvalid(t, "Find()", err, "colour=red")
	},
	"where nodes were put nothing is searched": func(t *testing.T, s *graphSubject) {
		s.load(t, Node("n1", nil, Cores(2)))
		_, err := s.graphs.Find(t.Context(), s.epoch, "status=up", Now)
		wantInvalid(t, "Find()", err)
		wantInvalid(t, "RemoveSubgraph()", s.graphs.RemoveSubgraph(t.Context(), s.epoch, "/"+Cluster))
		s.places(t, 1, Slots("a", 1, Cores(1)), "0@n1")
	},
	"nodes are listed by name, with what is in them and what jobs hold there": func(t *testing.T, s *graphSubject) {
		s.loadGraph(t, machine(2))
		s.stands(t, 2, Slots("a", 3, whole("core", 2)), "x@node0 y@node0 z@node1", keys("x", "y", "z"))
		s.give(t, 1, Slots("a", 1, whole("core", 2)), keys("x"))
		s.lists(t, "", 9, "node0 2: x@node0 y@node0", "node1 1: x@node1 2: z@node1", "node2", "node3")
		s.lists(t, "node1", 2, "node1 1: x@node1 2: z@node1", "node2")
		n := s.page(t, "node3", 1)[0]
		var paths []string
		for _, v := range n.Graph.Vertices {
			paths = append(paths, v.Path)
		}
		same(t, "the way down to a node", paths[:3], []string{"/cluster0", "/cluster0/rack1", "/cluster0/rack1/node3"})
		same(t, "the cores of a node", leaves(paths, "core"), cores(3, 0, 1, 2, 3))
	},
	"a search books nothing": func(t *testing.T, s *graphSubject) {
		s.searched(t)
		check := s.unchanged(t)
		for _, now := range []time.Time{Now, Now.Add(-time.Hour), Now.Add(48 * time.Hour)} {
			s.findAt(t, everything, now)
		}
		check()
		s.stands(t, 1, Slots("a", 1, whole("core", 1)), "0@node0", lasting(time.Hour))
	},
}
