package store

import (
	"maps"
	"math"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Order returns the positions of the nodes in the order in which a policy takes them: the nodes
// closest to the near nodes first, and then by the policy. distance has by position how far a node
// is from the near nodes; less is closer. It is nil if no near node is in the graph. Both slices
// are valid until the next call. Callers must not change the order, which may be cached.
func (st *Store) Order(policy string, near []string) (order []int32, distance []int) {
	order = st.graph.policyOrder(policy)
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
	st.order = resized(st.order, len(st.graph.nodes))
	sortByDistance(st.order, order, distance)
	return st.order, distance
}

// sortByDistance writes the order to sorted, the nodes with the smallest distance first. It is a
// counting sort, which is stable: there are only a few distances, one for each depth of the tree.
func sortByDistance(sorted, order []int32, distance []int) {
	// Most nodes are as close as the node before, so they are counted together.
	counts := make(map[int]int)
	for from, to := 0, 1; from < len(distance); to++ {
		if to == len(distance) || distance[to] != distance[from] {
			counts[distance[from]] += to - from
			from = to
		}
	}
	// next is by distance where the next node goes.
	next, from := make(map[int]*int, len(counts)), 0
	for _, d := range slices.Sorted(maps.Keys(counts)) {
		at := from
		next[d] = &at
		from += counts[d]
	}
	var to *int
	for i, at := range order {
		if i == 0 || distance[at] != distance[order[i-1]] {
			to = next[distance[at]]
		}
		sorted[*to] = at
		*to++
	}
}

// policyOrder returns the positions of the nodes in the order of a policy. Callers must not change
// the result, which is cached.
func (g *Graph) policyOrder(policy string) []int32 {
	switch by, _ := match.PolicyOf(policy); by.Order {
	case match.DepthFirst:
		return g.depthFirst()
	case match.HighestFirst:
		if len(g.descending) != len(g.nodes) {
			g.descending = make([]int32, len(g.nodes))
			for i := range g.descending {
				g.descending[i] = int32(len(g.nodes) - 1 - i)
			}
		}
		return g.descending
	case match.LowestFirst:
	}
	for i := len(g.ascending); i < len(g.nodes); i++ {
		g.ascending = append(g.ascending, int32(i))
	}
	return g.ascending[:len(g.nodes):len(g.nodes)]
}

// blocksOf returns the block index for the order of a policy. reversed is set if the order of the
// policy is the reverse of the order of the index.
func (g *Graph) blocksOf(policy string) (x *blockIndex, reversed bool) {
	c := &g.columns
	switch by, _ := match.PolicyOf(policy); by.Order {
	case match.HighestFirst:
		return c.byPosition, true
	case match.DepthFirst:
		if c.depthFirst == nil {
			if order := g.depthFirst(); slices.IsSorted(order) {
				c.depthFirst = c.byPosition
			} else {
				c.changes++
				c.depthFirst = newBlockIndex(len(order), order, c.changes)
			}
		}
		return c.depthFirst, false
	case match.LowestFirst:
	}
	return c.byPosition, false
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
