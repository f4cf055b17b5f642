package store

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
)

// Columns are what the matcher reads: the amounts of all pools of a kind side by
// side, by the position of their node, which nodes are up, and whose they are. To
// look at every node of a large graph is then a walk through a few arrays.
type columns struct {
	byType map[string][]*column // by type of pool: one column a unit
	up     []bool               // the node and all that it stands in are up
	// exclusive are copies of those of the hosts, owned counts those with a holder.
	exclusive      []solver.Exclusivity
	exclusiveNodes int
}

// A column holds the pools of one type and unit.
type column struct {
	unit string
	// nodes counts those that have such a pool; the others have amounts of 0.
	nodes int
	// Column has what is left while only slots are held that stay, and what is left now. They are
	// sums over the leaves of a pool, which stay at the largest int64 where they pass it.
	solver.Column
}

// addNode makes room for a node behind all others.
func (c *columns) addNode() {
	c.up = append(c.up, false)
	c.exclusive = append(c.exclusive, solver.Exclusivity{})
	for _, of := range c.byType {
		for _, col := range of {
			col.Capacity, col.Free = append(col.Capacity, 0), append(col.Free, 0)
		}
	}
}

// removeNode takes out the node at a position, which must have no pools left.
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

// setExclusivity brings the exclusivity of the node at a position up to date.
func (c *columns) setExclusivity(at int, to solver.Exclusivity) {
	if c.exclusive[at].Holders > 0 {
		c.exclusiveNodes--
	}
	if to.Holders > 0 {
		c.exclusiveNodes++
	}
	c.exclusive[at] = to
}

// exclusivityFor returns whose the nodes are where that may keep a requester from any, or nil:
// as long as nodes are nobody's and none is wanted whole, nobody need look.
func (c *columns) exclusivityFor(who solver.Requester) []solver.Exclusivity {
	if c.exclusiveNodes == 0 && !who.Exclusive {
		return nil
	}
	return c.exclusive
}

// permute puts at each position what stood at the position that from gives.
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

// addPool returns the column for one more pool of this type and unit.
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

// removePool takes a pool out of its column, and the column away with the last.
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
