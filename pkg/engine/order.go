package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
)

// inOrder returns the positions of the nodes in the order in which a request
// takes them: those closest to its near nodes first, then by its policy. Names
// that the graph lacks are near nothing.
func (e *Engine) inOrder(r *match.Request) []int32 {
	w := &e.space
	w.order = grown(w.order, len(e.graph.nodes))
	policy, _ := match.PolicyOf(r.Policy)
	switch policy.Order {
	case match.AsMet:
		copy(w.order, e.graph.depthFirst())
	case match.HighestFirst:
		for i := range w.order {
			w.order[i] = int32(len(w.order) - 1 - i)
		}
	case match.LowestFirst:
		for i := range w.order {
			w.order[i] = int32(i)
		}
	}
	w.walk++
	marked := false
	for _, name := range r.Near {
		if h := e.hosts[name]; h != nil && h.node != nil {
			for v := h.node.at; v != nil && v.near != w.walk; v = v.parent {
				v.near = w.walk
			}
			marked = true
		}
	}
	w.marked = marked
	if !marked {
		return w.order
	}
	w.distance = grown(w.distance, len(e.graph.nodes))
	for i, n := range e.graph.nodes {
		w.distance[i] = -n.closeness(w.walk)
	}
	slices.SortStableFunc(w.order, func(a, b int32) int { return cmp.Compare(w.distance[a], w.distance[b]) })
	return w.order
}

// closeness returns the depth of the deepest vertex that a node has in common
// with a near node; a near node is the closest of all.
func (n *node) closeness(walk uint64) int {
	if n.at.near == walk {
		return math.MaxInt32
	}
	v := n.at
	for v.near != walk {
		v = v.parent
	}
	return v.depth
}

// depthFirst returns the positions of the nodes in the order in which a walk
// from the root meets them. It is the graph's own, and made anew only after
// nodes came, went or moved.
func (g *graph) depthFirst() []int32 {
	if g.walk != nil || g.root == nil {
		return g.walk
	}
	g.walk = make([]int32, 0, len(g.nodes))
	var visit func(v *vertex)
	visit = func(v *vertex) {
		if v.node != nil {
			g.walk = append(g.walk, int32(v.node.position))
			return
		}
		for _, c := range v.children {
			visit(c)
		}
	}
	visit(g.root)
	return g.walk
}
