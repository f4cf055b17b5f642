package traverser

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/trials"
)

// below returns a function that reports whether a vertex is at path, above it or below it.
func below(path string) func(v *resource.Vertex) bool {
	return func(v *resource.Vertex) bool {
		return strings.HasPrefix(path+"/", v.Path+"/") || strings.HasPrefix(v.Path, path+"/")
	}
}

// TestGrowth checks that a graph that is added in parts equals the whole graph.
func TestGrowth(t *testing.T) {
	random := seed(t)
	cut := map[string][]*resource.Graph{
		"by racks": {part(small(), below("/cluster0/rack0")), part(small(), below("/cluster0/rack1"))},
		"by nodes": {
			part(small(), below("/cluster0/rack0/node0")), part(small(), below("/cluster0/rack0/node1")),
			part(small(), below("/cluster0/rack1/node0")), part(small(), below("/cluster0/rack1/node1")),
		},
		"the levels first": {
			part(small(), func(v *resource.Vertex) bool { return v.Type == "cluster" }),
			part(small(), func(v *resource.Vertex) bool { return v.Type == "cluster" || v.Type == "rack" }),
			part(small(), func(v *resource.Vertex) bool { return v.Type != "core" && v.Type != "gpu" }),
			small(),
		},
		"the whole twice": {small(), small()},
	}
	for name, parts := range cut {
		for _, policy := range drawnPolicies {
			t.Run(name+" with "+policy, func(t *testing.T) {
				grown, fresh := load(t, policy, parts...), load(t, policy, small())
				if grown.Vertices() != fresh.Vertices() {
					t.Errorf("%d vertices, want %d", grown.Vertices(), fresh.Vertices())
				}
				same(t, "dump", grown.dump(), fresh.dump())
				question := random.Uint64()
				for i := range 20 {
					q := draw(rand.New(rand.NewPCG(question, uint64(i))), match.JobID(i+1), int64(i))
					q.Policy = policy
					a, err := grown.try(q)
					b, wantErr := fresh.try(q)
					if held(a) != held(b) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
						t.Fatalf("question %d: %s, %v; want %s, %v", i, held(a), err, held(b), wantErr)
					}
				}
				same(t, "dump afterwards", grown.dump(), fresh.dump())
				if diff := gocmp.Diff(fresh.Graph(), grown.Graph()); diff != "" {
					t.Errorf("Graph() (-fresh +grown):\n%s", diff)
				}
			})
		}
	}
}

// TestGrowthWhileHeld checks that jobs keep what they hold
// while the graph grows, and that the edges keep their weights.
func TestGrowthWhileHeld(t *testing.T) {
	random := seed(t)
	for range trials.Count(100) {
		policy := drawnPolicies[random.IntN(len(drawnPolicies))]
		kept, grown := load(t, policy, small()), load(t, policy, small())
		for id := range match.JobID(8) {
			q := draw(random, id+1, 0)
			q.Policy = ""
			a, _ := kept.try(q)
			if b, _ := grown.try(q); held(a) != held(b) {
				t.Fatalf("job %d: %s and %s", id, held(a), held(b))
			}
			if random.IntN(3) == 0 {
				kept.Release(id)
				grown.Release(id)
			}
			grown.add(part(small(), below("/cluster0/rack1/node0")))
			if diff := gocmp.Diff(kept.Jobs(), grown.Jobs()); diff != "" {
				t.Fatalf("Jobs (-kept +grown):\n%s", diff)
			}
			same(t, "dump", grown.dump(), kept.dump())
			same(t, "learned", grown.learned(), kept.learned())
		}
	}
}

// moved returns a copy of small in which one vertex is changed.
func moved(t testing.TB, path string, change func(v *resource.Vertex)) *resource.Graph {
	t.Helper()
	g := small()
	change(at(t, g, path))
	return g
}

func TestBadPartsChangeNothing(t *testing.T) {
	cases := map[string]struct {
		part *resource.Graph
		want string
	}{
		"another root": {grown(of("center", 1, of("rack", 1))), "cluster"},
		"another rank": {moved(t, "/cluster0/rack1/node1", func(v *resource.Vertex) { v.Rank = 9 }), "/cluster0/rack1/node1"},
		"another type": {moved(t, "/cluster0/rack1/node1/gpu0", func(v *resource.Vertex) { v.Type = "fpga" }), "fpga"},
		"sizes beyond all sums": {moved(t, "/cluster0/rack1/node1/gpu1", func(v *resource.Vertex) {
			v.UniqID, v.ID, v.Name, v.Path, v.Size = 77, 7, "gpu7", "/cluster0/rack1/node1/gpu7", maxTotal-30
		}), "size"},
		"a number that is taken": {moved(t, "/cluster0/rack1/node1/gpu1", func(v *resource.Vertex) {
			v.ID, v.Name, v.Path = 7, "gpu7", "/cluster0/rack1/node1/gpu7"
		}), "uniq_id"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := load(t, match.PolicyFirst, small())
			r.gets(wants(1, 0, cores(3, 1)))
			graph, before, jobs := r.Graph(), r.dump(), r.Jobs()
			text, err := tc.part.JGF()
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Add(text); !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Add() = %v, want ErrInvalid that says %q", err, tc.want)
			}
			same(t, "dump", r.dump(), before)
			if diff := gocmp.Diff(graph, r.Graph()) + gocmp.Diff(jobs, r.Jobs()); diff != "" {
				t.Errorf("graph and jobs (-before +after):\n%s", diff)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	r := load(t, match.PolicyLow, small())
	r.gets(wants(1, 0, cores(1, 1)))
	before := r.dump()
	for path, want := range map[string]string{
		"/cluster0":                   "root",
		"/cluster0/rack0":             "job 1",
		"/cluster0/rack0/node0":       "job 1",
		"/cluster0/rack9":             "/cluster0/rack9",
		"":                            `""`,
		"rack0":                       "rack0",
		"/cluster0/rack0/":            "rack0/",
		"/":                           `"/"`,
		"/cluster0//node0":            "//",
		"/cluster0/rack0/node0/core0": "job 1",
	} {
		if err := r.Remove(path); !errors.Is(err, match.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Remove(%q) = %v, want ErrInvalid that says %q", path, err, want)
		}
	}
	same(t, "dump", r.dump(), before)
	if err := r.Remove("/cluster0/rack0/node1"); err != nil {
		t.Fatal(err)
	}
	fresh := load(t, match.PolicyLow, part(small(), func(v *resource.Vertex) bool {
		return !strings.HasPrefix(v.Path+"/", "/cluster0/rack0/node1/")
	}))
	if r.Vertices() != fresh.Vertices() {
		t.Errorf("%d vertices, want %d", r.Vertices(), fresh.Vertices())
	}
	fresh.gets(wants(1, 0, cores(1, 1)))
	same(t, "dump", r.dump(), fresh.dump())
	r.gets(wants(2, 0, nodes(2)))
	r.fails(wants(3, 0, nodes(1)), match.ErrBusy)
	r.Release(1)
	r.Release(2)
	r.fails(wants(3, 0, nodes(4)), match.ErrUnsatisfiable)
	r.add(small())
	r.gets(wants(3, 0, nodes(4)))
}

// TestRemoveLeavesNothing checks that vertices that are added and removed leave nothing behind.
func TestRemoveLeavesNothing(t *testing.T) {
	r := load(t, match.PolicyFirst, small())
	r.gets(wants(1, 0, cores(1, 1)))
	text, err := part(small(), below("/cluster0/rack0/node0")).JGF()
	if err != nil {
		t.Fatal(err)
	}
	turn := func() {
		if err := r.Remove("/cluster0/rack0/node0"); err != nil {
			t.Fatal(err)
		}
		if err := r.Add(text); err != nil {
			t.Fatal(err)
		}
		r.gets(wants(2, 0, nodes(3)))
		r.Release(2)
	}
	turn()
	before, vertices := inUse(), len(r.g.typ)
	for range 10_000 {
		turn()
	}
	if len(r.g.typ) != vertices {
		t.Errorf("%d vertices are kept, %d before", len(r.g.typ), vertices)
	}
	if grew := inUse() - before; grew > 64<<10 {
		t.Errorf("10,000 rounds left %d bytes", grew)
	}
	runtime.KeepAlive(r)
}

// inUse returns the number of bytes of the heap that are in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestOddGraphs checks vertices without a rank, and vertices whose path is not the parent's
// path and the name. They are found by their paths, and recognised when they are added again.
func TestOddGraphs(t *testing.T) {
	rename := func(from, to string) func(g *resource.Graph) {
		return func(g *resource.Graph) {
			for i := range g.Vertices {
				if v := &g.Vertices[i]; v.Path == from || strings.HasPrefix(v.Path, from+"/") {
					v.Path = to + strings.TrimPrefix(v.Path, from)
				}
			}
		}
	}
	cases := map[string]struct {
		change func(g *resource.Graph)
		path   string // of a node with 4 cores
	}{
		"no ranks": {func(g *resource.Graph) {
			for i := range g.Vertices {
				g.Vertices[i].Rank = resource.NoRank
			}
		}, "/cluster0/rack1/node1"},
		"a node by another path":        {rename("/cluster0/rack1/node1", "/cluster0/rack1/elsewhere"), "/cluster0/rack1/elsewhere"},
		"a rack by another path":        {rename("/cluster0/rack1", "/cluster0/other"), "/cluster0/other/node1"},
		"a root by another path":        {rename("/cluster0", "/tiny"), "/tiny/rack1/node1"},
		"a path that leaves levels out": {rename("/cluster0/rack1/node1", "/cluster0/node7"), "/cluster0/node7"},
		"names of their own": {func(g *resource.Graph) {
			at(t, g, "/cluster0/rack1/node1").Name = "host-17"
			rename("/cluster0/rack1/node1", "/cluster0/rack1/host-17")(g)
		}, "/cluster0/rack1/host-17"},
		"a slash in a name of its own": {func(g *resource.Graph) {
			at(t, g, "/cluster0/rack1/node1").Name = "a/b"
			rename("/cluster0/rack1/node1", "/cluster0/rack1/a/b")(g)
		}, "/cluster0/rack1/a/b"},
		"a slash in a basename": {func(g *resource.Graph) {
			v := at(t, g, "/cluster0/rack1/node1")
			v.Basename, v.Name = "a/b", "a/b1"
			rename("/cluster0/rack1/node1", "/cluster0/rack1/a/b1")(g)
		}, "/cluster0/rack1/a/b1"},
		"a slash in a type": {func(g *resource.Graph) {
			for i := range g.Vertices {
				if v := &g.Vertices[i]; v.Type == "gpu" {
					v.Type, v.Basename, v.Name = "nvidia.com/gpu", "nvidia.com/gpu", "nvidia.com/"+v.Name
					v.Path = v.Path[:strings.LastIndexByte(v.Path, '/')] + "/" + v.Name
				}
			}
		}, "/cluster0/rack1/node1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := small()
			tc.change(g)
			r := load(t, match.PolicyLow, g)
			before := r.dump()
			paths := []string{tc.path, tc.path + "/core2"}
			for i := range g.Vertices {
				if v := &g.Vertices[i]; strings.Contains(v.Name, "/") {
					paths = append(paths, v.Path)
				}
			}
			for _, path := range paths {
				if err := r.SetStatus(path, resource.Down); err != nil {
					t.Fatal(err)
				}
				if err := r.SetStatus(path, resource.Up); err != nil {
					t.Fatal(err)
				}
				if err := r.Update(holding(t, 1, g, path)); err != nil {
					t.Fatal(err)
				}
				jobs := r.Jobs()
				if got := jobs[0].Slots[0].R.Vertices; len(got) != 1 || got[0].Path != path || got[0].Name != at(t, g, path).Name {
					t.Errorf("holds %+v, want %s", got, path)
				}
				if err := r.Update(jobs...); err != nil {
					t.Fatal(err)
				}
				r.Release(1)
			}
			r.add(g)
			same(t, "the graph again", r.dump(), before)
			if err := r.Remove(tc.path); err != nil {
				t.Fatal(err)
			}
			r.fails(wants(1, 0, nodes(4)), match.ErrUnsatisfiable)
			r.add(g)
			r.gets(wants(1, 0, nodes(4)))
			r.Release(1)
			same(t, "the graph anew", r.dump(), before)
		})
	}
}

// TestVerticesApart checks that no request gets vertices that containment does not reach.
func TestVerticesApart(t *testing.T) {
	g := small()
	g.Vertices = append(g.Vertices, resource.Vertex{
		UniqID: 99, Type: "node", Basename: "node", Name: "node9", ID: 9, Size: 1, Path: "/cluster0/rack0/node9",
	})
	text, err := g.JGF()
	if err != nil {
		t.Fatal(err)
	}
	r := load(t, match.PolicyLow)
	if err := r.Add(text); err != nil {
		t.Fatal(err)
	}
	const path = "/cluster0/rack0/node9"
	for what, err := range map[string]error{
		"Remove":        r.Remove(path),
		"SetStatus":     r.SetStatus(path, resource.Down),
		"SetNodeStatus": r.SetNodeStatus("node9", resource.Down),
		"Update":        r.Update(holding(t, 1, g, path)),
	} {
		if !errors.Is(err, match.ErrInvalid) {
			t.Errorf("%s = %v, want ErrInvalid", what, err)
		}
	}
	r.fails(wants(1, 0, nodes(5)), match.ErrUnsatisfiable)
}

// TestOtherEdges checks that containment is a tree, whatever the edges
// are: the first edge that reaches a vertex counts. Edges back and
// other subsystems do no harm, and paths in other subsystems are kept.
func TestOtherEdges(t *testing.T) {
	extra := func(g *resource.Graph, from, to, subsystem string) {
		index := func(path string) int {
			for i := range g.Vertices {
				if g.Vertices[i].Path == path {
					return i
				}
			}
			t.Fatalf("no %s", path)
			return 0
		}
		g.Edges = append(g.Edges, resource.Edge{Source: index(from), Target: index(to), Subsystem: subsystem})
	}
	cases := map[string]func(g *resource.Graph){
		"an edge back to the parent": func(g *resource.Graph) {
			extra(g, "/cluster0/rack1/node1", "/cluster0/rack1", resource.Containment)
		},
		"an edge back to the root": func(g *resource.Graph) {
			extra(g, "/cluster0/rack1/node1", "/cluster0", resource.Containment)
		},
		"two parents": func(g *resource.Graph) {
			extra(g, "/cluster0/rack1", "/cluster0/rack0/node1", resource.Containment)
		},
		"another subsystem": func(g *resource.Graph) {
			at(t, g, "/cluster0/rack0").Paths = map[string]string{"power": "/pdu0/rack0"}
			extra(g, "/cluster0/rack0", "/cluster0/rack1", "power")
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			g := small()
			change(g)
			text, err := g.JGF()
			if err != nil {
				t.Skipf("cannot be written: %v", err)
			}
			r, plain := load(t, match.PolicyLow), load(t, match.PolicyLow, small())
			for range 2 {
				if err := r.Add(text); err != nil {
					t.Fatal(err)
				}
				same(t, "dump", r.dump(), plain.dump())
				if a, b := held(r.gets(wants(1, 0, nodes(4)))), held(plain.gets(wants(1, 0, nodes(4)))); a != b {
					t.Errorf("holds %s, want %s", a, b)
				}
				r.Release(1)
				plain.Release(1)
			}
			if diff := gocmp.Diff(g.Vertices, r.Graph().Vertices); diff != "" {
				t.Errorf("vertices (-given +kept):\n%s", diff)
			}
			for _, rack := range []string{"/cluster0/rack1", "/cluster0/rack0"} {
				if err := r.Remove(rack); err != nil {
					t.Fatal(err)
				}
			}
			if r.Vertices() != 1 || len(r.g.typ) != 1 {
				t.Errorf("%d vertices are left, %d kept; want the root", r.Vertices(), len(r.g.typ))
			}
		})
	}
}
