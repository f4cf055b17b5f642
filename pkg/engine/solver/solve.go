package solver

import (
	"cmp"
	"slices"
)

// An Outcome is what an attempt came to.
type Outcome int

const (
	// Placed says that the least that is wanted is laid out.
	Placed Outcome = iota
	// Impossible says that there is proven to be no way to lay it out.
	Impossible
	// Unknown says that none was found within the budget.
	Unknown
)

// A Shortfall names the shape that an attempt failed at first, and how many of
// its slots there was room for.
type Shortfall struct {
	Shape int
	Found int64
	// Level is the type of vertex at which it failed, and in the one that came
	// closest; empty and nil where it was not a topology that failed.
	Level  string
	domain *domain
}

// Nodes returns the positions of the nodes of the domain that came closest; nil where none is
// known.
func (f *Shortfall) Nodes() []int32 {
	if f.domain == nil {
		return nil
	}
	return f.domain.order
}

// Vertex returns the name of that domain; empty for none.
func (f *Shortfall) Vertex() string { return f.domain.name() }

// SolveMax lays out as many slots of every shape as there can be.
func (b *Layout) SolveMax(v View) (Outcome, Shortfall) {
	o, failed := b.SolveMin(v)
	if o == Placed {
		b.extend()
	}
	return o, failed
}

// SolveMin lays out the least of every shape. What it finds once the meter is spent is a
// placement all the same, but nothing is proven any more.
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

// arrange lays out the least of every shape: first with each node used as far as
// it goes, shape by shape; then by a search.
func (b *Layout) arrange(v View) (Outcome, Shortfall) {
	if len(b.levels) > 0 {
		return solveTopology(b, v)
	}
	given := make([]int, len(b.shapes))
	for i := range given {
		given[i] = i
	}
	failed, ok := b.greedy(v, given)
	switch {
	case ok:
		return Placed, Shortfall{}
	case len(given) == 1 && b.limitsNest(0):
		// No other shape takes room, and the limits nest. Filling node by node then
		// lays out as many slots as fit.
		return Impossible, failed
	}
	for s := range given {
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
			want = SatAdd(want, SatMul(s.Count.Min, s.Each[k]))
		}
		if want > have {
			return Impossible, failed
		}
	}
	largest := slices.Clone(given)
	slices.SortStableFunc(largest, func(x, y int) int {
		return cmp.Compare(b.shapes[y].maxShare(all), b.shapes[x].maxShare(all))
	})
	if _, ok := b.greedy(v, largest); ok {
		return Placed, Shortfall{}
	}
	return b.search(v, largest), failed
}

// search searches, within what is left for searches.
func (b *Layout) search(v View, order []int) Outcome {
	o := searchBy(b, pack, v, order)
	if o == Unknown && len(b.limits) > 0 {
		o = searchBy(b, searchExhaustively, v, order)
	}
	return o
}

// searchBy searches in one way, within half of what is left for searches.
func searchBy(b *Layout, way func(*Layout, View, []int, int) (Outcome, int), v View, order []int) Outcome {
	if b.IsExhausted() {
		return Unknown
	}
	whole := max(minBudget, b.searchSteps/2)
	budget := min(whole, b.remain)
	o, left := way(b, v, order, budget)
	b.searchSteps -= budget - left
	if o == Unknown && budget < whole {
		b.Exhaust()
	}
	return o
}

// greedy lays out the shapes one after the other. It returns the one that failed
// if any did.
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
