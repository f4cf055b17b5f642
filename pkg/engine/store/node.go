package store

import (
	"strings"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
)

// A node is a vertex of type node. Its leaves are grouped into pools by type.
type node struct {
	vertex *vertex
	// position is the index of the node in the graph's nodes.
	position int
	pools    []pool
	// multiLeaf reports whether a pool has more than one leaf.
	multiLeaf bool
}

// A pool is all leaves of one type below a node. Usually there is one.
type pool struct {
	typ string
	// column has the amounts of the pool.
	column *column
	leaves []*vertex
}

// name returns the node's name, unique in the graph.
func (n *node) name() string { return n.vertex.res.Name }

// poolIndex returns the index of the pool of a type, or -1 if there is none.
func (n *node) poolIndex(typ string) int {
	for i := range n.pools {
		if n.pools[i].typ == typ {
			return i
		}
	}
	return -1
}

// buildPools groups the leaves below the node into new pools.
func (n *node) buildPools(c *columns) {
	n.dropPools(c)
	var visit func(v *vertex)
	visit = func(v *vertex) {
		for _, child := range v.children {
			visit(child)
		}
		if len(v.children) > 0 || v == n.vertex {
			return
		}
		i := n.poolIndex(v.res.Type)
		if i < 0 {
			i = len(n.pools)
			n.pools = append(n.pools, pool{typ: v.res.Type, column: c.addPool(v.res.Type, v.res.Unit)})
		}
		p := &n.pools[i]
		p.leaves = append(p.leaves, v)
	}
	visit(n.vertex)
	n.multiLeaf = false
	for i := range n.pools {
		n.multiLeaf = n.multiLeaf || len(n.pools[i].leaves) > 1
		n.updateColumns(i)
	}
}

// dropPools removes the pools.
func (n *node) dropPools(c *columns) {
	if len(n.pools) > 0 && c.covered[n.position] {
		c.uncover(n.position)
		c.markStale(n.position)
	}
	for _, p := range n.pools {
		c.removePool(p.typ, p.column, n.position)
	}
	n.pools = nil
}

// updateColumns updates the amounts of a pool in its column.
func (n *node) updateColumns(at int) {
	p, most, free := &n.pools[at], int64(0), int64(0)
	for _, v := range p.leaves {
		most, free = solver.SatAdd(most, v.permanent.remaining(v.res.Size)), solver.SatAdd(free, v.free())
	}
	p.column.set(n.position, most, free)
}

// findLeaf finds a leaf by its path below the node. It returns -1 if there is none.
func (n *node) findLeaf(typ, below string) (at int, v *vertex) {
	if at = n.poolIndex(typ); at >= 0 {
		for _, v := range n.pools[at].leaves {
			if v.relPath == below {
				return at, v
			}
		}
	}
	return -1, nil
}

// pathBelow returns the part of a containment path after the vertex with this name. It returns ""
// if there is none.
func pathBelow(path, name string) string {
	for from := 0; ; {
		at := strings.Index(path[from:], name)
		if name == "" || at < 0 {
			return ""
		}
		at += from
		end := at + len(name)
		if at > 0 && path[at-1] == '/' && end < len(path) && path[end] == '/' {
			return path[end+1:]
		}
		from = at + 1
	}
}
