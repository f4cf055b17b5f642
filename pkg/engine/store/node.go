package store

import (
	"strings"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
)

// A node is a vertex of type node, with its pools gathered by type.
type node struct {
	at *vertex
	// position is the node's place among the nodes of the graph.
	position int
	pools    []pool
	// several says that a pool has more than one leaf.
	several bool
}

// A pool is all leaves of one type below a node, mostly just one.
type pool struct {
	kind   string
	column *column // which holds the amounts
	leaves []*vertex
}

// name returns the node's name, unique in the graph.
func (n *node) name() string { return n.at.about.Name }

// find returns the index of the pool of a type; -1 for none.
func (n *node) find(kind string) int {
	for i := range n.pools {
		if n.pools[i].kind == kind {
			return i
		}
	}
	return -1
}

// gather makes the pools anew from the vertices below the node.
func (n *node) gather(c *columns) {
	n.disband(c)
	var visit func(v *vertex)
	visit = func(v *vertex) {
		for _, child := range v.children {
			visit(child)
		}
		if len(v.children) > 0 || v == n.at {
			return
		}
		i := n.find(v.about.Type)
		if i < 0 {
			i = len(n.pools)
			n.pools = append(n.pools, pool{kind: v.about.Type, column: c.join(v.about.Type, v.about.Unit)})
		}
		p := &n.pools[i]
		p.leaves = append(p.leaves, v)
	}
	visit(n.at)
	n.several = false
	for i := range n.pools {
		n.several = n.several || len(n.pools[i].leaves) > 1
		n.count(i)
	}
}

// disband gives up the pools.
func (n *node) disband(c *columns) {
	for _, p := range n.pools {
		c.quit(p.kind, p.column, n.position)
	}
	n.pools = nil
}

// count brings up to date what there is at the most of a pool, and what is free.
func (n *node) count(at int) {
	p, most, free := &n.pools[at], int64(0), int64(0)
	for _, v := range p.leaves {
		most, free = solver.Plus(most, v.stays.leaves(v.about.Size)), solver.Plus(free, v.free())
	}
	p.column.Most[n.position], p.column.Free[n.position] = most, free
}

// leaf finds a leaf by its path below the node.
func (n *node) leaf(kind, below string) (at int, v *vertex) {
	if at = n.find(kind); at >= 0 {
		for _, v := range n.pools[at].leaves {
			if v.below == below {
				return at, v
			}
		}
	}
	return -1, nil
}

// below returns the part of a containment path that follows the vertex of this
// name; "" if there is none.
func below(path, name string) string {
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
