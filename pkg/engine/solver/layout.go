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
// attempt, and what is left on each node. A node gets a row when the first slot is placed there
// or, if there are several shapes, when it is first read. Before that its columns are read.
type Layout struct {
	*Workspace
	problem *Problem
	// shapes are the shapes to place. A topology search replaces
	// them by copies that have other counts and more limits.
	shapes []Shape
	// order has the positions of the nodes in the order in which they are to be
	// used. A parameter i is an index into order, a parameter at is a position.
	order []int32
	// room is the room for order; nil if the layout has only some of the nodes.
	room Room
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
	w.nextStamp()
	w.searchBudgetLeft = 2 * searchBudget
	b := &Layout{Workspace: w, problem: p, shapes: p.Shapes, order: p.Order, room: p.Room, levels: p.Topology, runs: w.runs[:0]}
	nodes := len(p.Order)
	if !b.chargeMemory(8*nodes*len(p.Needs)) || !b.chargeMemory(nodes*len(p.Shapes)) {
		b.order = nil
		return b
	}
	w.rowStamp, w.rowIndex = resized(w.rowStamp, nodes), resized(w.rowIndex, nodes)
	if slices.ContainsFunc(p.Shapes, func(s Shape) bool { return s.Constrained }) {
		w.constraintCache = resized(w.constraintCache, nodes*len(p.Shapes))
		clear(w.constraintCache)
	}
	b.setLimits(p.Limits)
	return b
}

// start begins an attempt with no slots placed.
func (b *Layout) start(v View) {
	b.view = v
	b.nextStamp()
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
	part.order, part.room, part.runs = order, nil, nil
	return &part
}

// Within returns a copy of a layout that has only the nodes at these positions, and as topology only the
// levels from one on that can make a placement fail. Only one of the two layouts may be in use at a time.
func Within(b *Layout, order []int32, level int) *Layout {
	part := b.withNodes(order)
	part.levels = slices.DeleteFunc(slices.Clone(b.levels[level:]), func(l Level) bool { return l.Rule == FewestDomains })
	return part
}

// row returns the amounts left on a node, by need. An amount is 0 if the node has no such pool,
// or counts it in another unit. The row may be changed until the next call of row.
func (b *Layout) row(i int) []int64 {
	needs, at := b.problem.Needs, b.order[i]
	if row := b.rowAt(at, len(needs)); row != nil {
		return row
	}
	b.rowStamp[at], b.rowIndex[at] = b.stamp, int32(b.rowCount)
	b.remain -= len(needs) / needsPerStep // unchecked here; the next Charge notices if no steps are left
	row := b.newRow(len(needs))
	for k := range needs {
		row[k] = needs[k].amount(b.view, at)
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

// isUsable reports whether the view allows slots of a shape on a node, whatever is left there.
func (b *Layout) isUsable(s, i int) bool {
	return b.problem.isOpen(b.view, b.order[i]) && b.view.allows(b.constraintsAllow(s, i))
}
