package store

import (
	"cmp"
	"math"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Order returns the positions of the nodes in the order in which a policy takes them: the nodes
// closest to the near nodes first, and then by the policy. distance has by position how far a node
// is from the near nodes; less is closer. It is nil if no near node is in the graph. Both slices
// are valid until the next call.
func (st *Store) Order(policy string, near []string) (order []int32, distance []int) {
	st.order = resized(st.order, len(st.graph.nodes))
	order = st.order
	by, _ := match.PolicyOf(policy)
	switch by.Order {
	case match.DepthFirst:
		copy(order, st.graph.depthFirst())
	case match.HighestFirst:
		for i := range order {
			order[i] = int32(len(order) - 1 - i)
		}
	case match.LowestFirst:
		for i := range order {
			order[i] = int32(i)
		}
	}
	st.orderCalls++
	marked := false
	for _, name := range near {
		if h := st.hosts.byName[name]; h != nil && h.node != nil {
			for v := h.node.vertex; v != nil && v.nearMark != st.orderCalls; v = v.parent {
				v.nearMark = st.orderCalls
			}
			marked = true
		}
	}
	if !marked {
		return order, nil
	}
	st.distance = resized(st.distance, len(st.graph.nodes))
	distance = st.distance
	for i, n := range st.graph.nodes {
		distance[i] = -n.closeness(st.orderCalls)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(distance[a], distance[b]) })
	return order, distance
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// closeness returns the depth of the deepest vertex that contains both the node and a near node.
// For a near node it returns the largest value.
func (n *node) closeness(call uint64) int {
	if n.vertex.nearMark == call {
		return math.MaxInt32
	}
	v := n.vertex
	for v.nearMark != call {
		v = v.parent
	}
	return v.depth
}

// depthFirst returns the positions of the nodes in depth-first order from the root. Callers must
// not change the result, which is cached.
func (g *Graph) depthFirst() []int32 {
	if g.walkOrder != nil || g.root == nil {
		return g.walkOrder
	}
	g.walkOrder = make([]int32, 0, len(g.nodes))
	var visit func(v *vertex)
	visit = func(v *vertex) {
		if v.node != nil {
			g.walkOrder = append(g.walkOrder, int32(v.node.position))
			return
		}
		for _, c := range v.children {
			visit(c)
		}
	}
	visit(g.root)
	return g.walkOrder
}
