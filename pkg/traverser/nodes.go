package traverser

import (
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// Nodes returns node vertices as match.Engine does: at most
// limit nodes, ordered by name, beginning with the name from.
func (t *Traverser) Nodes(from string, limit int) []match.Node {
	g := &t.g
	if t.byName == nil {
		t.byName = slices.Clone(g.nodes)
		slices.SortFunc(t.byName, func(a, b vid) int { return strings.Compare(g.name(a), g.name(b)) })
	}
	first, _ := slices.BinarySearchFunc(t.byName, from, func(u vid, name string) int { return strings.Compare(g.name(u), name) })
	page := t.byName[first:min(first+limit, len(t.byName))]
	nodes := make([]match.Node, len(page))
	at := make(map[string]int, len(page))
	for i, u := range page {
		nodes[i] = match.Node{Name: g.name(u), Graph: g.part(u)}
		at[nodes[i].Name] = i
	}
	wanted := make(map[vid]bool, len(page))
	for _, u := range page {
		wanted[u] = true
	}
	for _, j := range t.list(func(j *job) bool { return !j.reserved && t.standsOn(j, wanted) }) {
		for _, s := range j.Slots {
			i, listed := at[s.Node]
			if s.Node == "" || !listed {
				continue
			}
			jobs := &nodes[i].Jobs
			if n := len(*jobs); n == 0 || (*jobs)[n-1].ID != j.ID {
				*jobs = append(*jobs, match.Job{ID: j.ID, Start: j.Start, End: j.End})
			}
			last := &(*jobs)[len(*jobs)-1]
			last.Slots = append(last.Slots, s)
		}
	}
	return nodes
}

// standsOn reports whether a job holds something on one of these nodes.
func (t *Traverser) standsOn(j *job, nodes map[vid]bool) bool {
	return slices.ContainsFunc(j.emissions, func(e emission) bool {
		return typeID(t.g.typ[e.u]) == typeNode && nodes[e.u]
	})
}

// part returns the vertices above u from the root down, u, and the vertices below u.
func (g *graph) part(u vid) *resource.Graph {
	p := &resource.Graph{}
	at := make(map[vid]int)
	for v := u; v != none; v = g.parent[v] {
		at[v] = -1
	}
	g.write(p, g.root, -1, func(v vid) bool { _, way := at[v]; return way || g.under(v, u) })
	return p
}

// write appends v and the vertices below it to p. It leaves out the
// vertices for which wanted returns false, and everything below them.
func (g *graph) write(p *resource.Graph, v vid, parent int, wanted func(vid) bool) {
	if !wanted(v) {
		return
	}
	here := len(p.Vertices)
	p.Vertices = append(p.Vertices, g.vertex(v))
	if parent >= 0 {
		p.Edges = append(p.Edges, resource.Edge{Source: parent, Target: here, Subsystem: resource.Containment})
	}
	if in := g.in(v); in != nil {
		for _, c := range in.children {
			g.write(p, c, here, wanted)
		}
	}
}

// Graph returns the whole graph: first the vertices of the containment tree in the order of a walk,
// then the vertices that are only in other subsystems, and then the edges of these subsystems.
func (t *Traverser) Graph() *resource.Graph {
	g, p := &t.g, &resource.Graph{}
	if t.Empty() {
		return p
	}
	at := make([]int, len(g.typ))
	g.write(p, g.root, -1, func(u vid) bool { at[u] = len(p.Vertices); return true })
	for u := range vid(len(g.typ)) { //nolint:gosec // fewer than maxVertices
		if !g.attached(u) {
			at[u] = len(p.Vertices)
			p.Vertices = append(p.Vertices, g.vertex(u))
		}
	}
	for _, e := range g.aside {
		p.Edges = append(p.Edges, resource.Edge{Source: at[e.from], Target: at[e.to], Subsystem: e.subsystem})
	}
	return p
}
