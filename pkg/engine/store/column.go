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
	// exclusive has copies of the hosts' exclusivities. On a node that is covered, it has what counts during the
	// window of the cover, and held has the copies.
	exclusive, held []solver.Exclusivity
	// covered reports, by position, whether a solver reads what counts during a window. Of other nodes it reads what is held.
	// stale are the covered nodes that have changed since.
	covered []bool
	stale   []int32
	// covers is the number of nodes that are covered. allStale reports whether every node may have changed since
	// the last window, or its position.
	covers   int
	allStale bool
	// exclusiveNodes is the number of nodes with a holder. holders
	// is the number of nodes that only this holder has.
	exclusiveNodes int
	holders        map[string]int
	// byPosition is the index of the nodes by position. depthFirst is the index in depth-first order;
	// nil before its first use, and after the order has changed.
	byPosition, depthFirst *blockIndex
	// changes is the number of changes of a node so far.
	changes uint64
	// numbered is the number of columns that were ever added.
	numbered uint64
}

func newColumns() columns {
	return columns{byType: make(map[string][]*column), holders: make(map[string]int), byPosition: newBlockIndex(0, nil, 0)}
}

// A column holds the pools of one type and unit.
type column struct {
	in *columns
	// number tells the column from all others, earlier ones too. Numbers begin at 1.
	number uint64
	unit   string
	// nodes is the number of nodes with such a pool. The amounts of all other nodes are 0.
	nodes int
	// Column has two amounts for each node: Capacity is what is free while only permanent slots are
	// held, and Free is what is free now. Each is the sum over the leaves of the pool, at most the
	// largest int64. On a node that is covered, Free is what is free during the window of the cover, and
	// held has what is free now.
	solver.Column
	held []int64
}

// addNode appends a node that is down and has no pools.
func (c *columns) addNode() {
	c.up = append(c.up, false)
	c.exclusive, c.held = append(c.exclusive, solver.Exclusivity{}), append(c.held, solver.Exclusivity{})
	c.covered = append(c.covered, false)
	for _, of := range c.byType {
		for _, col := range of {
			col.Capacity, col.Free, col.held = append(col.Capacity, 0), append(col.Free, 0), append(col.held, 0)
		}
	}
	c.resized(len(c.up) - 1)
}

// resized notes that nodes were added or removed, from a position on.
func (c *columns) resized(at int) {
	c.changes++
	c.byPosition.resize(len(c.up), at, c.changes)
	c.depthFirst = nil
	c.allStale = true
}

// touch notes a change of the node at a position.
func (c *columns) touch(at int) {
	c.changes++
	c.byPosition.touch(at, c.changes)
	if c.depthFirst != nil {
		c.depthFirst.touch(at, c.changes)
	}
}

// setUp marks the node at a position up or down.
func (c *columns) setUp(at int, up bool) {
	c.up[at] = up
	c.touch(at)
}

// removeNode removes the node at a position. Invariant: the node has no pools left.
func (c *columns) removeNode(at int) {
	c.uncover(at)
	c.up = slices.Delete(c.up, at, at+1)
	c.setExclusivity(at, solver.Exclusivity{})
	c.exclusive, c.held = slices.Delete(c.exclusive, at, at+1), slices.Delete(c.held, at, at+1)
	c.covered = slices.Delete(c.covered, at, at+1)
	for _, of := range c.byType {
		for _, col := range of {
			col.Capacity = slices.Delete(col.Capacity, at, at+1)
			col.Free, col.held = slices.Delete(col.Free, at, at+1), slices.Delete(col.held, at, at+1)
		}
	}
	c.resized(at)
}

// setExclusivity sets the exclusivity of the node at a position.
func (c *columns) setExclusivity(at int, to solver.Exclusivity) {
	c.held[at] = to
	if c.covered[at] {
		c.markStale(at)
		return
	}
	c.showExclusivity(at, to)
}

// showExclusivity sets the exclusivity that a solver reads.
func (c *columns) showExclusivity(at int, to solver.Exclusivity) {
	if was := &c.exclusive[at]; was.Holders != to.Holders || was.Holder != to.Holder {
		c.countHolder(was, -1)
		c.countHolder(&to, 1)
	}
	c.exclusive[at] = to
	c.touch(at)
}

// countHolder adds n to the number of nodes with holders like x.
func (c *columns) countHolder(x *solver.Exclusivity, n int) {
	if x.Holders > 0 {
		c.exclusiveNodes += n
	}
	if x.Holders != 1 {
		return
	}
	if c.holders[x.Holder] += n; c.holders[x.Holder] == 0 {
		delete(c.holders, x.Holder)
	}
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
	c.up, c.exclusive, c.held, c.covered = permuted(c.up, from), permuted(c.exclusive, from), permuted(c.held, from), permuted(c.covered, from)
	for _, of := range c.byType {
		for _, col := range of {
			col.Capacity, col.Free, col.held = permuted(col.Capacity, from), permuted(col.Free, from), permuted(col.held, from)
		}
	}
	c.resized(0)
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
		c.numbered++
		of = append(of, &column{in: c, number: c.numbered, unit: unit, Column: solver.Column{Capacity: make([]int64, len(c.up)), Free: make([]int64, len(c.up))}, held: make([]int64, len(c.up))})
		c.byType[typ] = of
	}
	of[at].nodes++
	return of[at]
}

// set sets the amounts of the node at a position.
func (col *column) set(at int, capacity, free int64) {
	col.Capacity[at], col.held[at] = capacity, free
	if col.in.covered[at] {
		col.in.markStale(at)
	} else {
		col.Free[at] = free
	}
	col.in.touch(at)
}

// show sets the amount that a solver reads as free at a position.
func (col *column) show(at int, free int64) {
	col.Free[at] = free
	col.in.touch(at)
}

// markStale notes that the node at a position has changed.
func (c *columns) markStale(at int) {
	if c.allStale {
		return
	}
	if c.stale = append(c.stale, int32(at)); len(c.stale) > 2*len(c.covered)+blockNodes {
		c.stale, c.allStale = c.stale[:0], true
	}
}

// cover notes that a solver reads what counts during a window on the node at a position.
func (c *columns) cover(at int) {
	if !c.covered[at] {
		c.covered[at] = true
		c.covers++
	}
}

// uncover makes a solver read what is held on the node at a position.
func (c *columns) uncover(at int) {
	if !c.covered[at] {
		return
	}
	c.covered[at] = false
	c.covers--
	for _, of := range c.byType {
		for _, col := range of {
			col.Free[at] = col.held[at]
		}
	}
	c.showExclusivity(at, c.held[at])
}

// swapHeld exchanges what a solver reads with what is held. Until it is called again, nothing may be changed, and
// a solver must not use a Room.
func (c *columns) swapHeld() {
	c.exclusive, c.held = c.held, c.exclusive
	for _, of := range c.byType {
		for _, col := range of {
			col.Free, col.held = col.held, col.Free
		}
	}
}

// removePool removes a node's pool from its column. It removes the column with the last pool.
func (c *columns) removePool(typ string, col *column, at int) {
	col.set(at, 0, 0)
	if col.nodes--; col.nodes > 0 {
		return
	}
	delete(c.byPosition.maxima, col)
	if c.depthFirst != nil {
		delete(c.depthFirst.maxima, col)
	}
	of := slices.DeleteFunc(c.byType[typ], func(x *column) bool { return x == col })
	if len(of) == 0 {
		delete(c.byType, typ)
	} else {
		c.byType[typ] = of
	}
}
