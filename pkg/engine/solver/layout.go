package solver

import (
	"cmp"
	"slices"
)

// A Run is a number of slots of one shape on one node. Shape is an index. Node is an index into the
// layout's order while the layout is solved, and the position of the node in what Runs returns.
type Run struct {
	Shape, Node int
	Count       int64
}

// A Layout is the working state of the solver: the slots placed in the current
// attempt, and what is left on each node. An attempt computes the row of a node
// only when it first reads the row, so a problem that fits at once reads few nodes.
type Layout struct {
	*Workspace
	problem *Problem
	// shapes are the shapes to place. A topology search replaces
	// them by copies that have other counts and more limits.
	shapes []Shape
	// order has the positions of the nodes in the order in which they are to be
	// used. A parameter i is an index into order, a parameter at is a position.
	order []int32
	// levels is the topology that is still to be satisfied. It is nil inside a topology
	// search, which expresses the topology by restricting order and adding limits.
	levels []Level
	// limits are the limits of the problem, and the limits that a topology search adds.
	limits []Limit
	view   View
	runs   []Run
	// topologySearch is the search that found the current placement; nil if there is no topology.
	topologySearch *topologySearch
}

// A byte of Workspace.constraintCache has these bits.
const (
	evaluated uint8 = 1 << iota
	allowedAlways
	allowedNow
)

// New returns a layout for one problem. If the problem is too large, the layout
// has no nodes, and the meter is exhausted. The layout owns p.Limits from then on.
func New(w *Workspace, p *Problem) *Layout {
	w.stamp = 0
	w.searchBudgetLeft = 2 * searchBudget
	b := &Layout{Workspace: w, problem: p, shapes: p.Shapes, order: p.Order, levels: p.Topology, runs: w.runs[:0]}
	nodes := len(p.Order)
	if !b.chargeMemory(8*nodes*len(p.Needs)) || !b.chargeMemory(nodes*len(p.Shapes)) {
		b.order = nil
		return b
	}
	w.rows = resized(w.rows, nodes*len(p.Needs))
	w.rowStamp = resized(w.rowStamp, nodes)
	w.constraintCache = resized(w.constraintCache, nodes*len(p.Shapes))
	clear(w.rowStamp)
	clear(w.constraintCache)
	b.setLimits(p.Limits)
	return b
}

// start begins an attempt with no slots placed.
func (b *Layout) start(v View) {
	b.view = v
	b.stamp++
	b.runs = b.runs[:0]
}

// View returns the view of the last attempt.
func (b *Layout) View() View { return b.view }

// Runs returns the placement, sorted by shape. Run.Node is a position there. No more slots
// may be placed afterwards. The slice is valid until another layout uses the workspace.
func (b *Layout) Runs() []Run {
	slices.SortStableFunc(b.runs, func(x, y Run) int { return cmp.Compare(x.Shape, y.Shape) })
	for i := range b.runs {
		b.runs[i].Node = int(b.order[b.runs[i].Node])
	}
	b.Workspace.runs = b.runs
	return b.runs
}

// Replay places runs that another layout returned; their nodes are
// positions. It returns false if one of the runs does not fit.
func (b *Layout) Replay(v View, runs []Run) bool {
	if b.IsExhausted() {
		return false
	}
	index := make([]int, len(b.problem.Up))
	for i, at := range b.order {
		index[at] = i
	}
	b.start(v)
	for _, r := range runs {
		r.Node = index[r.Node]
		if b.roomFor(r.Shape, r.Node, r.Count) < r.Count {
			return false
		}
		b.put(r.Shape, r.Node, r.Count)
		b.runs = append(b.runs, r)
	}
	return true
}

// withNodes returns a copy of the layout that has only the nodes at these positions.
// Both layouts share the rows, so only one of them may be in use at a time.
func (b *Layout) withNodes(order []int32) *Layout {
	part := *b
	part.order, part.runs = order, nil
	return &part
}

// row returns the amounts left on a node, by need. An amount is
// 0 if the node has no such pool, or counts it in another unit.
func (b *Layout) row(i int) []int64 {
	needs := b.problem.Needs
	width := len(needs)
	at := int(b.order[i])
	row := b.rows[at*width : (at+1)*width : (at+1)*width]
	if b.rowStamp[at] == b.stamp {
		return row
	}
	b.rowStamp[at] = b.stamp
	b.remain -= width / needsPerStep // unchecked here; the next Charge notices if no steps are left
	for k := range needs {
		row[k] = 0
		for _, c := range needs[k].Columns {
			if b.view.Empty {
				row[k] = SatAdd(row[k], c.Capacity[at])
			} else {
				row[k] = SatAdd(row[k], c.Free[at])
			}
		}
	}
	return row
}

// constraintsAllow evaluates the constraints of a shape on a node, and caches the result. See
// Constraints for what it returns. Both results are false if there are too few steps left.
func (b *Layout) constraintsAllow(s, i int) (always, now bool) {
	shape := &b.shapes[s]
	if !shape.Constrained {
		return true, true
	}
	at := b.order[i]
	p := &b.constraintCache[s*len(b.problem.Up)+int(at)]
	if *p == 0 {
		if !b.Charge(shape.ConstraintSteps) {
			return false, false
		}
		*p = evaluated
		always, now := b.problem.Constraints.Allow(s, at)
		if always {
			*p |= allowedAlways
		}
		if now {
			*p |= allowedNow
		}
	}
	return *p&allowedAlways != 0, *p&allowedNow != 0
}

// conflict returns the reason why the requester may not use the node at a position.
func (b *Layout) conflict(at int32) Conflict {
	if b.problem.Exclusivities == nil || b.view.Empty {
		return NoConflict
	}
	return b.problem.Exclusivities[at].Conflict(b.problem.Requester)
}

// isUsable reports whether the view allows slots of a shape on a node, whatever is left there.
func (b *Layout) isUsable(s, i int) bool {
	at := b.order[i]
	if b.view.Up && !b.problem.Up[at] || b.conflict(at) != NoConflict {
		return false
	}
	always, now := b.constraintsAllow(s, i)
	return now || always && !b.view.Now
}
