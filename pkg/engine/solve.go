package engine

import (
	"cmp"
	"slices"
)

// An outcome is what an attempt came to.
type outcome int

const (
	// placed: the least that the request needs is laid out.
	placed outcome = iota
	// impossible: it is proven that there is no way to lay it out.
	impossible
	// unknown: none was found within the budget.
	unknown
)

// A shortfall names the shape that an attempt failed at first, and how many of
// its slots there was room for.
type shortfall struct {
	shape int
	found int64
	// level is the type of vertex at which it failed, and in the one that came
	// closest; empty and nil where it was not a topology that failed.
	level string
	in    *domain
}

// solve lays out the least of every shape. What it finds once the meter is spent is a
// placement all the same, but nothing is proven any more.
func (b *board) solve(v view) (outcome, shortfall) {
	if b.spent() {
		return unknown, shortfall{}
	}
	o, failed := b.arrange(v)
	if o == impossible && b.spent() {
		o = unknown
	}
	return o, failed
}

// arrange lays out the least of every shape: first with each node used as far as
// it goes, shape by shape; then by a search.
func (b *board) arrange(v view) (outcome, shortfall) {
	if b.ask.topology != nil {
		return b.gather(v)
	}
	given := make([]int, len(b.ask.shapes))
	for i := range given {
		given[i] = i
	}
	failed, ok := b.greedy(v, given)
	switch {
	case ok:
		return placed, shortfall{}
	case len(given) == 1 && b.nested(0):
		// Nothing else takes of what there is, and limits nest: filling up node
		// by node lays out as many as there can be.
		return impossible, failed
	}
	for s := range given {
		b.start(v)
		if n := b.lay(s, b.ask.shapes[s].count.Min); n < b.ask.shapes[s].count.Min && b.nested(s) {
			return impossible, shortfall{shape: s, found: n}
		}
	}
	if b.overbound(v) {
		return impossible, failed
	}
	b.start(v)
	all := b.capacity()
	for k, have := range all {
		want := int64(0)
		for _, s := range b.ask.shapes {
			want = plus(want, times(s.count.Min, s.each[k]))
		}
		if want > have {
			return impossible, failed
		}
	}
	largest := slices.Clone(given)
	slices.SortStableFunc(largest, func(x, y int) int {
		return cmp.Compare(b.ask.shapes[y].share(all), b.ask.shapes[x].share(all))
	})
	if _, ok := b.greedy(v, largest); ok {
		return placed, shortfall{}
	}
	return b.look(v, largest), failed
}

// look searches, within what is left for searches.
func (b *board) look(v view, order []int) outcome {
	o := b.lookBy(b.pack, v, order)
	if o == unknown && b.ask.limited {
		o = b.lookBy(b.search, v, order)
	}
	return o
}

// lookBy searches in one way, within half of what is left for searches.
func (b *board) lookBy(way func(view, []int, int) (outcome, int), v view, order []int) outcome {
	if b.spent() {
		return unknown
	}
	whole := max(leastBudget, b.effort/2)
	budget := min(whole, b.remain)
	o, left := way(v, order, budget)
	b.effort -= budget - left
	if o == unknown && budget < whole {
		b.exhaust()
	}
	return o
}

// greedy lays out the shapes one after the other. It returns the one that failed
// if any did.
func (b *board) greedy(v view, order []int) (failed shortfall, ok bool) {
	b.start(v)
	for _, s := range order {
		least := b.ask.shapes[s].count.Min
		if n := b.lay(s, least); n < least {
			return shortfall{shape: s, found: n}, false
		}
	}
	return shortfall{}, true
}
