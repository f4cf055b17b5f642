package store

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
)

// columns are what a solver reads: arrays by the position of a node. They have the amounts of all
// pools, whether nodes are up, and which holders nodes have. A solver that reads every node of a
// large graph then reads only a few arrays.
type columns struct {
	// byType has the columns by type of pool, one for each unit.
	byType map[string][]*column
	// up reports whether the node and all vertices above it are up.
	up []bool
	// exclusive has copies of the hosts' exclusivities.
	exclusive []solver.Exclusivity
	// exclusiveNodes is the number of nodes with a holder.
	exclusiveNodes int
}

// A column holds the pools of one type and unit.
type column struct {
	unit string
	// nodes is the number of nodes with such a pool. The amounts of all other nodes are 0.
	nodes int
	// Column has two amounts for each node: Capacity is what is free while only permanent slots are
	// held, and Free is what is free now. Each is the sum over the leaves of the pool, at most the
	// largest int64.
	solver.Column
}

// addNode appends a node that is down and has no pools.
func (c *columns) addNode() {
	c.up = append(c.up, false)
	c.exclusive = append(c.exclusive, solver.Exclusivity{})
	for _, of := range c.byType {
		for _, col := range of {
			col.Capacity, col.Free = append(col.Capacity, 0), append(col.Free, 0)
		}
	}
}

// removeNode removes the node at a position. Invariant: the node has no pools left.
func (c *columns) removeNode(at int) {
	c.up = slices.Delete(c.up, at, at+1)
	c.setExclusivity(at, solver.Exclusivity{})
	c.exclusive = slices.Delete(c.exclusive, at, at+1)
	for _, of := range c.byType {
		for _, col := range of {
			col.Capacity = slices.Delete(col.Capacity, at, at+1)
			col.Free = slices.Delete(col.Free, at, at+1)
		}
	}
}

// setExclusivity sets the exclusivity of the node at a position.
func (c *columns) setExclusivity(at int, to solver.Exclusivity) {
	if c.exclusive[at].Holders > 0 {
		c.exclusiveNodes--
	}
	if to.Holders > 0 {
		c.exclusiveNodes++
	}
	c.exclusive[at] = to
}

// exclusivityFor returns the exclusivities of the nodes. It returns nil if they cannot keep the
// requester from any node: no node has a holder, and the requester does not want whole nodes.
func (c *columns) exclusivityFor(who solver.Requester) []solver.Exclusivity {
	if c.exclusiveNodes == 0 && !who.Exclusive {
		return nil
	}
	return c.exclusive
}

// permute reorders the nodes: the node at from[i] gets the position i.
func (c *columns) permute(from []int) {
	c.up, c.exclusive = permuted(c.up, from), permuted(c.exclusive, from)
	for _, of := range c.byType {
		for _, col := range of {
			col.Capacity, col.Free = permuted(col.Capacity, from), permuted(col.Free, from)
		}
	}
}

func permuted[T any](s []T, from []int) []T {
	to := make([]T, len(s))
	for i, f := range from {
		to[i] = s[f]
	}
	return to
}

// addPool returns the column for one more pool of this type and unit. It creates the column if
// needed.
func (c *columns) addPool(typ, unit string) *column {
	of := c.byType[typ]
	at := slices.IndexFunc(of, func(col *column) bool { return col.unit == unit })
	if at < 0 {
		at = len(of)
		of = append(of, &column{unit: unit, Column: solver.Column{Capacity: make([]int64, len(c.up)), Free: make([]int64, len(c.up))}})
		c.byType[typ] = of
	}
	of[at].nodes++
	return of[at]
}

// removePool removes a node's pool from its column. It removes the column with the last pool.
func (c *columns) removePool(typ string, col *column, at int) {
	col.Capacity[at], col.Free[at] = 0, 0
	if col.nodes--; col.nodes > 0 {
		return
	}
	of := slices.DeleteFunc(c.byType[typ], func(x *column) bool { return x == col })
	if len(of) == 0 {
		delete(c.byType, typ)
	} else {
		c.byType[typ] = of
	}
}
