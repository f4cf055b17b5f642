package traverser

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/planner"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A tree is n vertices of one type, with the same vertices below each.
type tree struct {
	typ  string
	n    int
	with []tree
}

// of returns a tree.
func of(typ string, n int, with ...tree) tree { return tree{typ, n, with} }

// grown returns the graph of a tree. UniqIDs rise in the order
// of a walk, ids by type below one parent, and ranks by node.
func grown(root tree) *resource.Graph {
	g := &resource.Graph{}
	ranks := int64(0)
	var stand func(parent int, rank int64, t tree)
	stand = func(parent int, rank int64, t tree) {
		for id := range int64(t.n) {
			here := len(g.Vertices)
			v := resource.Vertex{UniqID: int64(here), Type: t.typ, Basename: t.typ, ID: id, Rank: rank, Size: 1}
			v.Name = fmt.Sprintf("%s%d", t.typ, id)
			v.Path = "/" + v.Name
			if t.typ == "node" {
				v.Rank = ranks
				ranks++
			}
			if parent >= 0 {
				v.Path = g.Vertices[parent].Path + v.Path
				g.Edges = append(g.Edges, resource.Edge{Source: parent, Target: here, Subsystem: resource.Containment})
			}
			g.Vertices = append(g.Vertices, v)
			for _, w := range t.with {
				stand(here, v.Rank, w)
			}
		}
	}
	stand(-1, resource.NoRank, root)
	return g
}

// small returns a cluster of two racks with two nodes each. A node has four cores and two gpus.
func small() *resource.Graph {
	return grown(of("cluster", 1, of("rack", 2, of("node", 2, of("core", 4), of("gpu", 2)))))
}

// at returns the vertex of a graph with this path.
func at(t testing.TB, g *resource.Graph, path string) *resource.Vertex {
	t.Helper()
	i := slices.IndexFunc(g.Vertices, func(v resource.Vertex) bool { return v.Path == path })
	if i < 0 {
		t.Fatalf("the graph has no %s", path)
	}
	return &g.Vertices[i]
}

// part returns the vertices of a graph for which wanted
// returns true. All vertices above them must be among them.
func part(g *resource.Graph, wanted func(v *resource.Vertex) bool) *resource.Graph {
	p := &resource.Graph{}
	to := make(map[int]int)
	for i := range g.Vertices {
		if wanted(&g.Vertices[i]) {
			to[i] = len(p.Vertices)
			p.Vertices = append(p.Vertices, g.Vertices[i])
		}
	}
	for _, e := range g.Edges {
		source, ok := to[e.Source]
		if target, both := to[e.Target]; ok && both {
			p.Edges = append(p.Edges, resource.Edge{Source: source, Target: target, Subsystem: e.Subsystem})
		}
	}
	return p
}

// A rig is a traverser and the test that uses it.
type rig struct {
	*Traverser
	t testing.TB
}

// Add reads a part and adds it.
func (r *rig) Add(jgf []byte) error {
	p, err := Read(jgf)
	if err != nil {
		return err
	}
	return r.Traverser.Add(p)
}

// load returns a traverser with these graphs.
func load(t testing.TB, policy string, graphs ...*resource.Graph) *rig {
	t.Helper()
	o := DefaultOptions()
	o.MatcherPolicy = policy
	tr, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{tr, t}
	for _, g := range graphs {
		r.add(g)
	}
	return r
}

func (r *rig) add(g *resource.Graph) {
	r.t.Helper()
	text, err := g.JGF()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.Add(text); err != nil {
		r.t.Fatal(err)
	}
}

func several(typ string, n int64, with ...jobspec.Resource) jobspec.Resource {
	r := jobspec.Resource{Type: typ, Count: jobspec.Exactly(n), With: with}
	if typ == jobspec.SlotType {
		r.Label = "task"
	}
	return r
}

// nodes asks for whole nodes.
func nodes(n int64) jobspec.Resource { return several("slot", n, several("node", 1)) }

// cores asks for slots with each cores.
func cores(slots, each int64) jobspec.Resource { return several("slot", slots, several("core", each)) }

// seconds returns a time of the caller's clock.
func seconds(n int64) time.Time { return time.Unix(n, 0).UTC() }

// wants returns a request. The functions in change modify it.
func wants(id match.JobID, now int64, rs jobspec.Resource, change ...func(*match.Request)) match.Request {
	q := match.Request{
		ID: id, Now: seconds(now), Jobspec: &jobspec.Jobspec{Version: 1, Resources: []jobspec.Resource{rs}},
	}
	for _, c := range change {
		c(&q)
	}
	return q
}

func lasting(n int64) func(*match.Request) {
	return func(q *match.Request) { q.Duration = time.Duration(n) * time.Second }
}

func doing(op match.Op) func(*match.Request) { return func(q *match.Request) { q.Op = op } }

func named(keys ...string) func(*match.Request) { return func(q *match.Request) { q.Keys = keys } }

func (r *rig) try(q match.Request) (*match.Allocation, error) {
	return r.Match(r.t.Context(), &q, sha256.Sum256(fmt.Appendf(nil, "%v %v %v %v", q.Jobspec, q.Duration, q.Keys, q.Policy)))
}

// gets matches a request that must fit.
func (r *rig) gets(q match.Request) *match.Allocation {
	r.t.Helper()
	a, err := r.try(q)
	if err != nil {
		r.t.Fatalf("job %d at %s: %v", q.ID, q.Now, err)
	}
	return a
}

// fails matches a request that must fail.
func (r *rig) fails(q match.Request, want error) {
	r.t.Helper()
	if a, err := r.try(q); !errors.Is(err, want) {
		r.t.Fatalf("job %d at %s: %s, %v; want %v", q.ID, q.Now, held(a), err, want)
	}
}

// held lists what an allocation holds exclusively, by path.
// It leaves out vertices below another vertex that is held.
func held(a *match.Allocation) string {
	if a == nil {
		return "nothing"
	}
	var list []string
	for i := range a.R.Vertices {
		if v := &a.R.Vertices[i]; v.Exclusively {
			list = append(list, v.Path)
		}
	}
	slices.Sort(list)
	outer := list[:0:0]
	for _, p := range list {
		if !slices.ContainsFunc(outer, func(o string) bool { return strings.HasPrefix(p, o+"/") }) {
			outer = append(outer, p)
		}
	}
	return strings.Join(outer, " ")
}

// found lists the vertices that meet criteria themselves, by path.
func (r *rig) found(criteria string, now int64) []string {
	r.t.Helper()
	set, err := r.Find(criteria, Instant(seconds(now)))
	if err != nil {
		r.t.Fatal(err)
	}
	var paths []string
	for i := range set.Vertices {
		if set.Vertices[i].Exclusively {
			paths = append(paths, set.Vertices[i].Path)
		}
	}
	slices.Sort(paths)
	return paths
}

// bookings returns the bookings of a plan over all time.
func bookings(p *planner.Plan) string {
	if p.Empty() {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d", p.At(math.MinInt64))
	for at, ok := p.Next(math.MinInt64); ok; at, ok = p.Next(at) {
		fmt.Fprintf(&b, " %d:%d", at, p.At(at))
	}
	return b.String()
}

// dump returns all bookings: by path the own plan of each vertex,
// how many jobs use it, and the bookings of each tracked type below
// it. It also checks the marks and counts that are kept for speed.
func (r *rig) dump() []string {
	r.t.Helper()
	g := &r.g
	var list []string
	for u := range vid(len(g.typ)) {
		if !g.attached(u) {
			continue
		}
		line := fmt.Sprintf("%s: own %s", g.path(u), bookings(&g.plans[u]))
		if booked := g.flags[u]&isBooked != 0; booked == g.plans[u].Empty() {
			r.t.Errorf("%s: marked as booked: %t, its plan: %s", g.path(u), booked, bookings(&g.plans[u]))
		}
		if in := g.in(u); in != nil {
			line += ", use " + bookings(&in.use)
			if in.free != nil {
				for i, typ := range in.free.types {
					line += fmt.Sprintf(", %s of %d", g.types[typ], in.free.plan.Totals()[i])
					for at, ok := in.free.plan.Next(math.MinInt64); ok; at, ok = in.free.plan.Next(at) {
						line += fmt.Sprintf(" %d:%d", at, in.free.plan.Peak(i, at, at+1))
					}
				}
			}
			if touched := r.touched(in); touched != in.touched {
				r.t.Errorf("%s: %d children count as touched, %d are", g.path(u), in.touched, touched)
			}
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return list
}

func (r *rig) touched(in *inner) int32 {
	n := int32(0)
	for _, c := range in.children {
		if r.g.inside[c] >= 0 || r.g.flags[c]&(isDown|isBooked) != 0 {
			n++
		}
	}
	return n
}

// same fails if two lists of lines differ.
func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Fatalf("%s: differs first at\n got: %s\nwant: %s", what, g, w)
		}
	}
}
