package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// enlist adds a host's name to the list of them, if there is one.
func (e *Engine) enlist(name string) {
	if e.names == nil {
		return
	}
	if at, ok := slices.BinarySearch(e.names, name); !ok {
		e.names = slices.Insert(e.names, at, name)
	}
}

// strike takes a host's name off the list, if there is one.
func (e *Engine) strike(name string) {
	if at, ok := slices.BinarySearch(e.names, name); ok {
		e.names = slices.Delete(e.names, at, at+1)
	}
}

// Nodes implements match.Engine. The graph stands still while a page is noted,
// not while it is written out. The first call in an epoch sorts all names.
func (e *Engine) Nodes(ctx context.Context, at match.Epoch, from string, limit int) ([]match.Node, error) {
	notes, added, err := e.note(ctx, at, from, limit)
	if err != nil || added != nil {
		return added, err
	}
	x := make(exporter)
	nodes := make([]match.Node, len(notes))
	for i := range notes {
		nodes[i] = match.Node{Name: notes[i].name, Graph: notes[i].graph(), Jobs: x.jobs(notes[i].slots)}
	}
	return nodes, nil
}

// note takes down a page of the hosts; of a graph that was added, which is not
// listed while scheduling goes on beside, it returns the nodes themselves.
func (e *Engine) note(ctx context.Context, at match.Epoch, from string, limit int) ([]note, []match.Node, error) {
	e.mu.Lock()
	defer e.unlock()
	if err := e.admit(ctx, at); err != nil {
		return nil, nil, err
	}
	if limit < 1 || limit > match.MaxNodes {
		return nil, nil, invalid("list nodes: limit %d is not within 1 and %d", limit, match.MaxNodes)
	}
	if e.making == ofGraphs {
		return nil, e.added.Nodes(from, limit), nil
	}
	if e.names == nil {
		e.names = slices.Sorted(maps.Keys(e.hosts))
	}
	first, _ := slices.BinarySearch(e.names, from)
	page := e.names[first:min(first+limit, len(e.names))]
	notes := make([]note, len(page))
	for i, name := range page {
		notes[i].take(name, e.hosts[name])
	}
	return notes, nil, nil
}

// A note is what there is of a host at one moment, without what may change later.
type note struct {
	name     string
	vertices []*resource.Vertex
	parents  []int // indexes into vertices; -1 for the root
	slots    []slot
}

func (n *note) take(name string, h *host) {
	n.name = name
	n.slots = make([]slot, 0, len(h.slots))
	for s := range h.slots {
		n.slots = append(n.slots, *s)
	}
	if h.node == nil {
		return
	}
	for v := h.node.at; v != nil; v = v.parent {
		n.vertices = append(n.vertices, v.about)
	}
	slices.Reverse(n.vertices)
	for i := range n.vertices {
		n.parents = append(n.parents, i-1)
	}
	n.takeBelow(h.node.at, len(n.vertices)-1)
}

// takeBelow takes down what stands below a vertex, which is noted at an index.
func (n *note) takeBelow(v *vertex, at int) {
	for _, c := range v.children {
		n.vertices, n.parents = append(n.vertices, c.about), append(n.parents, at)
		n.takeBelow(c, len(n.vertices)-1)
	}
}

// graph writes out the node; nil where there is none.
func (n *note) graph() *resource.Graph {
	if len(n.vertices) == 0 {
		return nil
	}
	g := &resource.Graph{
		Vertices: make([]resource.Vertex, len(n.vertices)),
		Edges:    make([]resource.Edge, 0, len(n.vertices)-1),
	}
	for i, v := range n.vertices {
		g.Vertices[i] = cloneVertex(v)
		if p := n.parents[i]; p >= 0 {
			g.Edges = append(g.Edges, resource.Edge{Source: p, Target: i, Subsystem: resource.Containment})
		}
	}
	return g
}

// jobs writes out slots by the jobs that hold them.
func (x exporter) jobs(slots []slot) []match.Job {
	slices.SortFunc(slots, func(a, b slot) int {
		return cmp.Or(cmp.Compare(a.job, b.job), strings.Compare(a.key, b.key))
	})
	var jobs []match.Job
	for i := range slots {
		s := &slots[i]
		if n := len(jobs); n == 0 || jobs[n-1].ID != s.job {
			jobs = append(jobs, match.Job{ID: s.job})
		}
		last := &jobs[len(jobs)-1]
		last.Slots = append(last.Slots, x.slot(s))
	}
	return jobs
}
