package matchtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// everything are criteria that every vertex meets.
const everything = "status=up or status=down"

// whole is a number of vertices of one type, or an amount of a pool that is given out whole.
func whole(kind string, n int64) Pool { return Pool{Type: kind, Amount: n} }

// machine builds a graph of racks with two nodes each. The nodes are numbered from 0 across the
// racks, and their numbers are also the ranks. A node has four cores, a gpu and a pool of 16 GB of
// memory.
func machine(racks int) *resource.Graph {
	g := &resource.Graph{}
	root := g.Hang(-1, resource.Vertex{Type: resource.TypeCluster, Name: Cluster, Size: 1})
	for r := range racks {
		rack := g.Hang(root, resource.Vertex{Type: "rack", Name: fmt.Sprint("rack", r), ID: int64(r), Size: 1})
		for n := 2 * r; n < 2*r+2; n++ {
			node := g.Hang(rack, resource.Vertex{Type: resource.TypeNode, Name: fmt.Sprint("node", n), ID: int64(n), Size: 1})
			for c := range 4 {
				g.Hang(node, resource.Vertex{Type: "core", Name: fmt.Sprint("core", c), ID: int64(c), Size: 1})
			}
			g.Hang(node, resource.Vertex{Type: "gpu", Name: "gpu0", Size: 1})
			g.Hang(node, resource.Vertex{Type: "memory", Name: "memory0", Size: 16, Unit: "GB"})
			for i := node; i < len(g.Vertices); i++ {
				g.Vertices[i].Rank = int64(n)
			}
		}
	}
	return g
}

// part returns the vertices of g for whose containment paths keep returns true.
func part(g *resource.Graph, keep func(path string) bool) *resource.Graph {
	kept := &resource.Graph{}
	at := map[int]int{}
	for i, v := range g.Vertices {
		if keep(v.Path) {
			at[i] = len(kept.Vertices)
			kept.Vertices = append(kept.Vertices, v)
		}
	}
	for _, e := range g.Edges {
		source, from := at[e.Source]
		target, to := at[e.Target]
		if from && to {
			kept.Edges = append(kept.Edges, resource.Edge{Source: source, Target: target, Subsystem: e.Subsystem})
		}
	}
	return kept
}

// below reports whether a path is that vertex's path, or the path of a vertex below it.
func below(path, vertex string) bool { return path == vertex || strings.HasPrefix(path, vertex+"/") }

func jgf(t *testing.T, g *resource.Graph) []byte {
	t.Helper()
	text, err := g.JGF()
	if err != nil {
		t.Fatalf("JGF() = %v", err)
	}
	return text
}

// A graphSubject is an engine under test that accepts graphs.
type graphSubject struct {
	*subject
	graphs match.GraphEngine
}

// loadGraph resets the engine, adds a graph and calls Ready.
func (s *graphSubject) loadGraph(t *testing.T, g *resource.Graph) {
	t.Helper()
	s.reset(t)
	s.add(t, g)
	s.ready(t)
}

func (s *graphSubject) add(t *testing.T, g *resource.Graph) {
	t.Helper()
	if err := s.graphs.AddSubgraph(t.Context(), s.epoch, jgf(t, g)); err != nil {
		t.Fatalf("AddSubgraph() = %v", err)
	}
}

func (s *graphSubject) removeSubgraph(t *testing.T, path string) {
	t.Helper()
	if err := s.graphs.RemoveSubgraph(t.Context(), s.epoch, path); err != nil {
		t.Fatalf("RemoveSubgraph(%q) = %v", path, err)
	}
}

// lonode puts the policy with the lowest ids first before these options, so that placements are
// known.
func lonode(how []option) []option { return append([]option{underPolicy(match.PolicyLonode)}, how...) }

// give requests a jobspec that must fit, lowest nodes first.
func (s *graphSubject) give(t *testing.T, id match.JobID, js *jobspec.Jobspec, how ...option) *match.Allocation {
	t.Helper()
	return s.match(t, id, js, lonode(how)...)
}

// stands requests a jobspec that must fit, lowest nodes first, and checks the node of each slot.
func (s *graphSubject) stands(t *testing.T, id match.JobID, js *jobspec.Jobspec, want string, how ...option) *match.Allocation {
	t.Helper()
	return s.places(t, id, js, want, lonode(how)...)
}

// refuse requests a jobspec that must not fit.
func (s *graphSubject) refuse(t *testing.T, id match.JobID, js *jobspec.Jobspec, verdict error, how ...option) {
	t.Helper()
	s.refuses(t, id, js, verdict, lonode(how)...)
}

// find lists the paths of the vertices that meet criteria at the time Now, in the engine's order.
func (s *graphSubject) find(t *testing.T, criteria string) []string {
	t.Helper()
	return s.findAt(t, criteria, Now)
}

func (s *graphSubject) findAt(t *testing.T, criteria string, now time.Time) []string {
	t.Helper()
	found, err := s.graphs.Find(t.Context(), s.epoch, criteria, now)
	if err != nil {
		t.Fatalf("Find(%q) = %v", criteria, err)
	}
	if found == nil {
		t.Fatalf("Find(%q) gave neither a set nor an error", criteria)
	}
	var paths []string
	for i := range found.Vertices {
		paths = append(paths, found.Vertices[i].Path)
	}
	return paths
}

// leaves returns the paths that end in a vertex of this type, sorted and without the name of the
// root.
func leaves(paths []string, kind string) []string {
	var of []string
	for _, p := range paths {
		if strings.HasPrefix(p[strings.LastIndexByte(p, '/')+1:], kind) {
			of = append(of, strings.TrimPrefix(p, "/"+Cluster))
		}
	}
	slices.Sort(of)
	return of
}

// cores lists the paths of cores of one node of machine, in the form of leaves.
func cores(node int, ids ...int) []string {
	var paths []string
	for _, id := range ids {
		paths = append(paths, fmt.Sprintf("/rack%d/node%d/core%d", node/2, node, id))
	}
	return paths
}

// unchanged records what the engine has. The returned function fails the test if the engine has
// something else by then.
func (s *graphSubject) unchanged(t *testing.T) func() {
	t.Helper()
	look := func() [][]string {
		return [][]string{
			s.find(t, everything), s.find(t, "status=down"), s.find(t, "sched-now=allocated"), s.find(t, "sched-future=reserved"),
		}
	}
	before, jobs := look(), s.jobs(t)
	return func() {
		t.Helper()
		same(t, "what the graph has, what of it is down, held and reserved", look(), before)
		same(t, "what is held", s.jobs(t), jobs)
	}
}

// wantInvalid fails the test unless err is match.ErrInvalid and its text has all of these words.
func wantInvalid(t *testing.T, what string, err error, says ...string) {
	t.Helper()
	if !errors.Is(err, match.ErrInvalid) {
		t.Errorf("%s = %v, want the error %q", what, err, match.ErrInvalid)
		return
	}
	for _, words := range says {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%s = %q, which does not say %q", what, err, words)
		}
	}
}
