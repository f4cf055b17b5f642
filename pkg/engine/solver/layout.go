package solver

import (
	"cmp"
	"slices"
)

// A Run is a number of slots of one shape on one node, by their indexes.
type Run struct {
	Shape, Node int
	Count       int64
}

// A Layout is where an attempt lays out slots. Rows are filled when they are
// first looked at, so that a problem that fits at once costs little.
type Layout struct {
	*Workspace
	problem *Problem
	// shapes are the problem's shapes, with other counts and more limits where a topology is looked
	// for.
	shapes []Shape
	// order are the positions of the nodes in the order in which they are to be used. Elsewhere in
	// the layout a node is its index in order.
	order []int32
	// levels are the problem's topology; none where it has found its place in the limits.
	levels []Level
	// limits are the problem's limits.
	limits []Limit
	view   View
	runs   []Run
	// topologySearch is what found a place for the topology.
	topologySearch *topologySearch
}

// What is known of a node and a shape.
const (
	known uint8 = 1 << iota
	allowedAlways
	allowedNow
)

// New returns a layout for one problem. It has no nodes and no steps are left where it would be
// too large. The problem's limits are the layout's from then on.
func New(w *Workspace, p *Problem) *Layout {
	w.stamp = 0
	w.searchSteps = 2 * searchBudget
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

// start begins an attempt with nothing laid out.
func (b *Layout) start(v View) {
	b.view = v
	b.stamp++
	b.runs = b.runs[:0]
}

// View returns what the last attempt counted on.
func (b *Layout) View() View { return b.view }

// Runs returns what is laid out, shape by shape, with the nodes by their positions. Nothing more
// may be laid out then, and the runs stand as long as no other layout begins.
func (b *Layout) Runs() []Run {
	slices.SortStableFunc(b.runs, func(x, y Run) int { return cmp.Compare(x.Shape, y.Shape) })
	for i := range b.runs {
		b.runs[i].Node = int(b.order[b.runs[i].Node])
	}
	b.Workspace.runs = b.runs
	return b.runs
}

// Replay lays out runs that name nodes by their positions. It is false if they do not fit.
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

// withNodes returns the layout with the nodes of these positions only. Of the two just one is
// used at a time: they have their rows in common.
func (b *Layout) withNodes(order []int32) *Layout {
	part := *b
	part.order, part.runs = order, nil
	return &part
}

// row returns what is left on a node, by need: 0 of a pool that it lacks or
// counts in another unit.
func (b *Layout) row(i int) []int64 {
	needs := b.problem.Needs
	width := len(needs)
	at := int(b.order[i])
	row := b.rows[at*width : (at+1)*width : (at+1)*width]
	if b.rowStamp[at] == b.stamp {
		return row
	}
	b.rowStamp[at] = b.stamp
	b.remain -= width / needsPerStep // the next charge looks at what is left
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

// constraintsAllow says whether the constraints of a shape hold on a node: those for
// good, and all.
func (b *Layout) constraintsAllow(s, i int) (always, now bool) {
	shape := &b.shapes[s]
	if !shape.Constrained {
		return true, true
	}
	at := b.order[i]
	p := &b.constraintCache[s*len(b.problem.Up)+int(at)]
	if *p == 0 {
		if !b.Charge(shape.ConditionSteps) {
			return false, false
		}
		*p = known
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

// conflict says what keeps the requester from the node at a position.
func (b *Layout) conflict(at int32) Conflict {
	if b.problem.Exclusive == nil || b.view.Empty {
		return NoConflict
	}
	return b.problem.Exclusive[at].Conflict(b.problem.Requester)
}

// isUsable says whether slots of a shape may stand on a node.
func (b *Layout) isUsable(s, i int) bool {
	at := b.order[i]
	if b.view.Up && !b.problem.Up[at] || b.conflict(at) != NoConflict {
		return false
	}
	always, now := b.constraintsAllow(s, i)
	return now || always && !b.view.Now
}
