package reapitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A graph is what a client loaded.
type graph struct {
	vertices []*vertex
	nodes    []*vertex // in the order of the policy
}

// A vertex is one of the graph; only leaves are taken.
type vertex struct {
	resource.Vertex
	parent   *vertex
	children []*vertex
	taken    bool
}

func (v *vertex) path() string { return v.Path }

// readGraph reads JGF and orders its nodes by the policy.
func readGraph(text, policy string) (*graph, error) {
	r, err := resource.ReadJGF([]byte(text))
	if err != nil {
		return nil, err
	}
	g := &graph{}
	for i := range r.Vertices {
		g.vertices = append(g.vertices, &vertex{Vertex: r.Vertices[i]})
	}
	for _, e := range r.Edges {
		p, c := g.vertices[e.Source], g.vertices[e.Target]
		c.parent, p.children = p, append(p.children, c)
	}
	for _, v := range g.vertices {
		if v.Type == resource.TypeNode {
			g.nodes = append(g.nodes, v)
		}
	}
	slices.SortStableFunc(g.nodes, func(a, b *vertex) int { return int(a.ID - b.ID) })
	switch policy {
	case "low", "lonode":
	case "high", "hinode", "first":
		slices.Reverse(g.nodes)
	default:
		return nil, fmt.Errorf("policy %q is not part of the stand-in", policy)
	}
	return g, nil
}

// slotOf returns the slot request that a jobspec is, and its constraint.
func slotOf(js *jobspec.Jobspec) (*jobspec.Resource, jobspec.Condition, error) {
	if len(js.Resources) != 1 {
		return nil, nil, errors.New("test: siblings in jobspec request same resource type")
	}
	if js.Resources[0].Type != jobspec.SlotType {
		return nil, nil, errors.New("no slot")
	}
	c, err := js.Attributes.System.Constraints.Compile()
	return &js.Resources[0], c, err
}

// bundles returns the leaves of a node that make up as many slots as it has, free
// ones or all.
func (v *vertex) bundles(slot *jobspec.Resource, empty bool, most int64) (taken []*vertex, slots int64) {
	free := make(map[string][]*vertex)
	for _, c := range v.children {
		if empty || !c.taken {
			free[c.Type] = append(free[c.Type], c)
		}
	}
	slots = most
	for _, w := range slot.With {
		slots = min(slots, int64(len(free[w.Type]))/w.Count.Min)
	}
	for _, w := range slot.With {
		taken = append(taken, free[w.Type][:slots*w.Count.Min]...)
	}
	return taken, slots
}

// match finds room on the nodes in their order.
func (g *graph) match(js *jobspec.Jobspec) (taken []*vertex, ok bool, err error) {
	return g.search(js, false)
}

// couldMatch says whether the empty graph has room.
func (g *graph) couldMatch(js *jobspec.Jobspec) bool {
	_, ok, err := g.search(js, true)
	return ok && err == nil
}

func (g *graph) search(js *jobspec.Jobspec, empty bool) (taken []*vertex, ok bool, err error) {
	slot, allowed, err := slotOf(js)
	if err != nil {
		return nil, false, err
	}
	room := int64(0)
	for _, n := range g.nodes {
		if allowed(n.Name, n.Rank, n.Properties) {
			_, slots := n.bundles(slot, empty, slot.Count.Max)
			room += slots
		}
	}
	want := slot.Count.Floor(room)
	if want == 0 {
		return nil, false, nil
	}
	for _, n := range g.nodes {
		if allowed(n.Name, n.Rank, n.Properties) {
			part, slots := n.bundles(slot, empty, want)
			want -= slots
			taken = append(taken, part...)
		}
	}
	return taken, true, nil
}

// lacks says whether a node that may be used lacks a type that a slot has: that is
// where release 0.39 is at fault.
func (g *graph) lacks(js *jobspec.Jobspec) bool {
	slot, allowed, err := slotOf(js)
	return err == nil && slices.ContainsFunc(g.nodes, func(n *vertex) bool {
		return allowed(n.Name, n.Rank, n.Properties) && slices.ContainsFunc(slot.With, func(w jobspec.Resource) bool {
			return !slices.ContainsFunc(n.children, func(c *vertex) bool { return c.Type == w.Type })
		})
	})
}

// write writes R in JGF: in the order of the graph, each vertex after what it
// contains.
func (g *graph) write(taken []*vertex) string {
	var nodes, edges []string
	in := make(map[*vertex]bool)
	for _, v := range taken {
		for p := v; p != nil; p = p.parent {
			in[p] = true
		}
	}
	var visit func(v *vertex)
	visit = func(v *vertex) {
		for _, c := range v.children {
			if in[c] {
				visit(c)
				edges = append(edges, fmt.Sprintf(`{"source": "%d", "target": "%d"}`, v.UniqID, c.UniqID))
			}
		}
		exclusive := ""
		if len(v.children) == 0 {
			exclusive = `, "exclusive": true`
		}
		nodes = append(nodes, fmt.Sprintf(`{"id": "%d", "metadata": {"type": %q, "name": %q, "id": %d, "rank": %d%s, "paths": {"containment": %q}}}`,
			v.UniqID, v.Type, v.Name, v.ID, v.Rank, exclusive, v.path()))
	}
	visit(g.vertices[0])
	return `{"graph": {"nodes": [` + strings.Join(nodes, ", ") + `], "edges": [` + strings.Join(edges, ", ") + "]}}\n"
}

// find returns the free leaves that R names.
func (g *graph) find(r string, form UpdateForm) ([]*vertex, error) {
	if form == UpdateWrapped {
		var whole struct {
			Version    int             `json:"version"`
			Scheduling json.RawMessage `json:"scheduling"`
		}
		if err := json.Unmarshal([]byte(r), &whole); err != nil || whole.Version != 1 {
			return nil, fmt.Errorf("no R of version 1: %w", err)
		}
		r = string(whole.Scheduling)
	}
	named, err := resource.ReadJGF([]byte(r))
	if err != nil {
		return nil, err
	}
	byPath := make(map[string]*vertex, len(g.vertices))
	for _, v := range g.vertices {
		byPath[v.path()] = v
	}
	var taken []*vertex
	for i := range named.Vertices {
		v := byPath[named.Vertices[i].Path]
		switch {
		case v == nil:
			return nil, fmt.Errorf("no vertex %s", named.Vertices[i].Path)
		case len(v.children) > 0:
			continue
		case v.taken:
			return nil, fmt.Errorf("%s is taken", v.path())
		}
		taken = append(taken, v)
	}
	if len(taken) == 0 {
		return nil, errors.New("nothing to book")
	}
	return taken, nil
}
