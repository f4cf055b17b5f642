package engine

import (
	"cmp"
	"math"
	"slices"
)

// inOrder returns the positions of the nodes in the order in which a request
// takes them: those closest to the near nodes first, then by their numbers
// (match.PolicyLonode). Names that the graph lacks are near nothing.
func (e *Engine) inOrder(near []string) []int32 {
	w := &e.space
	w.order = grown(w.order, len(e.graph.nodes))
	for i := range w.order {
		w.order[i] = int32(i)
	}
	w.walk++
	marked := false
	for _, name := range near {
		if h := e.hosts[name]; h != nil && h.node != nil {
			for v := h.node.at; v != nil && v.near != w.walk; v = v.parent {
				v.near = w.walk
			}
			marked = true
		}
	}
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
