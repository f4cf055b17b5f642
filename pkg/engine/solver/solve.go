package solver

import (
	"cmp"
	"math"
	"slices"
)

// An Outcome is the result of an attempt.
type Outcome int

const (
	// Placed means that the minimum count of every shape is placed.
	Placed Outcome = iota
	// Impossible means that it is proven that no placement exists.
	Impossible
	// Unknown means that no placement was found within the budget.
	Unknown
)

// A Shortfall describes how an attempt failed.
type Shortfall struct {
	// Shape is the first shape that did not fit.
	Shape int
	// Found is how many of its slots fitted.
	Found int64
	// Level is the type of the topology level at which the
	// attempt failed; empty if the topology was not the cause.
	Level string
	// domain is the domain that came closest; nil if there is no single one.
	domain *domain
}

// Nodes returns the positions of the nodes in the domain that came closest; nil if none is known.
func (f *Shortfall) Nodes() []int32 {
	if f.domain == nil {
		return nil
	}
	return f.domain.order
}

// Vertex returns the name of the domain that came closest; empty if none is known.
func (f *Shortfall) Vertex() string { return f.domain.name() }

// SolveMax places the minimum count of every shape, as SolveMin
// does. Then it places as many slots of the ranges as fit.
func (b *Layout) SolveMax(v View) (Outcome, Shortfall) {
	o, failed := b.SolveMin(v)
	if o == Placed {
		b.extend()
	}
	return o, failed
}

// SolveMin places the minimum count of every shape. A placement that it finds is valid even if
// the meter is exhausted meanwhile. But nothing is proven then, so Impossible becomes Unknown.
func (b *Layout) SolveMin(v View) (Outcome, Shortfall) {
	if b.IsExhausted() {
		return Unknown, Shortfall{}
	}
	o, failed := b.arrange(v)
	if o == Impossible && b.IsExhausted() {
		o = Unknown
	}
	return o, failed
}

// arrange places the minimum count of every shape. First it fills node by node, shape by shape. If
// that fails, it looks for a quick proof that no placement exists. If there is none, it searches.
func (b *Layout) arrange(v View) (Outcome, Shortfall) {
	if len(b.levels) > 0 {
		return solveTopology(b, v)
	}
	if first := &b.shapes[0]; len(b.shapes) == 1 && len(first.Limits) == 0 && first.Count.Min > fillChunk {
		// Filling node by node places as many slots as possible. Many slots are
		// counted first, because that takes much less than to place them.
		b.start(v)
		if n := newChunk(b, 0).count(first.Count.Min); n < first.Count.Min {
			return Impossible, Shortfall{Found: n}
		}
	}
	jobspecOrder := make([]int, len(b.shapes))
	for i := range jobspecOrder {
		jobspecOrder[i] = i
	}
	failed, ok := b.greedy(v, jobspecOrder)
	switch {
	case ok:
		return Placed, Shortfall{}
	case len(jobspecOrder) == 1 && b.limitsNest(0):
		// No other shape takes room, and the limits nest:
		// filling node by node places as many slots as possible.
		return Impossible, failed
	}
	for s := range jobspecOrder {
		b.start(v)
		if n := b.fill(s, b.shapes[s].Count.Min); n < b.shapes[s].Count.Min && b.limitsNest(s) {
			return Impossible, Shortfall{Shape: s, Found: n}
		}
	}
	if b.exceedsLimit(v) {
		return Impossible, failed
	}
	b.start(v)
	all := b.totals()
	for k, have := range all {
		want := int64(0)
		for _, s := range b.shapes {
			want = SatAdd(want, SatMul(s.Count.Min, s.AmountPerSlot[k]))
		}
		if want > have {
			return Impossible, failed
		}
	}
	largest := slices.Clone(jobspecOrder)
	slices.SortStableFunc(largest, func(x, y int) int {
		return cmp.Compare(b.shapes[y].maxShare(all), b.shapes[x].maxShare(all))
	})
	if _, ok := b.greedy(v, largest); ok {
		return Placed, Shortfall{}
	}
	return b.search(v, largest), failed
}

// search runs the search algorithms one after the other. If there are limits, it searches exhaustively in two
// orders of the shapes, because each finds placements within its budget that the other does not.
func (b *Layout) search(v View, order []int) Outcome {
	o := searchBy(b, pack, v, order)
	if o == Unknown && len(b.limits) > 0 {
		o = searchBy(b, searchExhaustively, v, order)
	}
	if o == Unknown && len(b.limits) > 0 {
		o = searchBy(b, searchExhaustively, v, scarcestFirst(b, v, order))
	}
	return o
}

// scarcestFirst sorts the shapes by the room that there is for each slot that is wanted, limits included, the
// least room first. Shapes with equal room keep the given order. If a shape with little room came last,
// shapes before it would take the only nodes that it may use, and the search would move each shape in
// between before it moved those.
func scarcestFirst(b *Layout, v View, order []int) []int {
	room := make([]float64, len(b.shapes))
	for s := range b.shapes {
		b.start(v)
		room[s] = float64(b.fill(s, math.MaxInt64)) / float64(b.shapes[s].Count.Min)
	}
	scarcest := slices.Clone(order)
	slices.SortStableFunc(scarcest, func(x, y int) int { return cmp.Compare(room[x], room[y]) })
	return scarcest
}

// searchBy runs one search algorithm with half of the budget that is left for searches. The
// meter may have fewer steps left than this budget. If the algorithm then returns Unknown,
// searchBy exhausts the meter, so that the caller learns that only steps were lacking.
func searchBy(b *Layout, algorithm func(*Layout, View, []int, int) (Outcome, int), v View, order []int) Outcome {
	if b.IsExhausted() {
		return Unknown
	}
	whole := max(minBudget, b.searchBudgetLeft/2)
	budget := min(whole, b.remain)
	o, left := algorithm(b, v, order, budget)
	b.searchBudgetLeft -= budget - left
	if o == Unknown && budget < whole {
		b.Exhaust()
	}
	return o
}

// greedy places the minimum counts by first fit, in the given order of
// shapes. It returns the shortfall of the first shape that does not fit.
func (b *Layout) greedy(v View, order []int) (failed Shortfall, ok bool) {
	b.start(v)
	for _, s := range order {
		least := b.shapes[s].Count.Min
		if n := b.fill(s, least); n < least {
			return Shortfall{Shape: s, Found: n}, false
		}
	}
	return Shortfall{}, true
}
