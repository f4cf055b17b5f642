package solver

import (
	"math/rand/v2"
	"slices"
)

// A packing looks for patterns, one for each node, that together have all the slots
// that are wanted. What the slots of one node do to others, as limits above nodes
// have it, it does not see: where it proves that there is no way there is none, but
// what it finds has still to be laid out.
type packing struct {
	*Layout
	// shapeOrder are in the order in which they are listed, width is how many.
	shapeOrder []int
	width      int
	want       []int64 // by shape
	classes    []nodeClass
	// allListed says that of every kind all patterns are listed.
	allListed bool
	// countsPerShape is how many different counts of one shape are tried where there are too
	// many patterns.
	countsPerShape int64
	// price is what a slot of a shape is worth, at most topPrice.
	price []int64
	// used says by kind how many nodes have a pattern, short how many slots of a
	// shape are still missing; below 0 there are more than wanted.
	used   [][]int32
	short  []int64
	rand   *rand.Rand
	budget int
}

// pack looks for a way to lay out the least of every shape, pattern by pattern, and
// returns what is left of the budget.
func pack(b *Layout, v View, order []int, budget int) (Outcome, int) {
	b.start(v)
	p := &packing{
		Layout: b, shapeOrder: order, width: len(order), want: make([]int64, len(order)),
		countsPerShape: maxCountsPerShape, budget: budget,
		rand: rand.New(rand.NewPCG(uint64(len(order)), uint64(len(b.order)))),
	}
	for s := range p.want {
		p.want[s] = b.shapes[s].Count.Min
	}
	o := Unknown
	if p.classify() {
		switch found, proven := p.solve(); {
		case found && p.layOut(v):
			o = Placed
		case proven:
			o = Impossible
		}
	}
	return o, max(0, p.budget)
}

// solve looks for patterns that have all that is wanted, or for a proof that there are
// none: by prices, by exchanges and by a tour, in turns that get longer.
func (p *packing) solve() (found, proven bool) {
	m := p.newDualBound(p.shares())
	if m.run(firstRounds) {
		return false, true
	}
	p.startGreedily()
	x := p.newTabuSearch()
	var t *branchAndBound
	for turn := 1 + p.budget/32; p.budget > 0; turn *= 2 {
		if x.run(min(turn, p.budget)) {
			return true, false
		}
		if m.run(moreRounds) {
			return false, true
		}
		if p.IsExhausted() {
			break
		}
		if t == nil {
			t = p.newBranchAndBound()
		}
		if !t.numbered {
			continue
		}
		if found, proven := t.run(min(turn, p.budget)); found || proven {
			return found, proven && p.allListed
		}
	}
	return false, false
}

// shares returns what part of all there is a slot of each shape takes.
func (p *packing) shares() []float64 {
	all, shares := p.totals(), make([]float64, p.width)
	for s := range shares {
		shares[s] = p.shapes[s].maxShare(all)
	}
	return shares
}

// spendBudget counts steps of the search: how many counts of slots are looked at.
func (p *packing) spendBudget(n int) {
	p.Spend(n)
	if p.budget -= n; p.IsExhausted() {
		p.budget = -1
	}
}

// chargeBudget is pay for many steps at once. It is false where the match has not so many left: then they
// are not to be taken. The search's own budget may go below 0 by them.
func (p *packing) chargeBudget(n int) bool {
	if p.IsExhausted() || !p.Charge(n) {
		p.budget = -1
		return false
	}
	p.budget -= n
	return true
}

// pattern returns a pattern of a kind.
func (p *packing) pattern(k, q int) []int32 {
	return p.classes[k].patterns[q*p.width : (q+1)*p.width : (q+1)*p.width]
}

// startGreedily gives every node a pattern, the dearest of what is still missing first.
func (p *packing) startGreedily() {
	p.short = slices.Clone(p.want)
	p.used = make([][]int32, len(p.classes))
	for k := range p.classes {
		p.used[k] = make([]int32, len(p.classes[k].patterns)/p.width)
		for left := int64(len(p.classes[k].nodes)); left > 0; {
			if p.budget < 0 {
				p.use(k, 0, int32(left))
				break
			}
			q := p.mostValuable(k)
			n := left
			for s, count := range p.pattern(k, q) {
				if count > 0 && p.short[s] > 0 {
					n = min(n, max(1, p.short[s]/int64(count)))
				}
			}
			p.use(k, q, int32(n))
			left -= n
		}
	}
}

// mostValuable returns the pattern of a kind that has the most of what is missing.
func (p *packing) mostValuable(k int) int {
	best, most := 0, int64(-1)
	if !p.chargeBudget(len(p.classes[k].patterns)) {
		return best
	}
	for q := range p.used[k] {
		worth := int64(0)
		for s, count := range p.pattern(k, q) {
			worth += min(max(0, p.short[s]), int64(count)) * p.price[s]
		}
		if worth > most {
			best, most = q, worth
		}
	}
	return best
}

// use gives n more nodes of a kind a pattern; below 0 takes it from them.
func (p *packing) use(k, q int, n int32) {
	p.used[k][q] += n
	for s, count := range p.pattern(k, q) {
		p.short[s] -= int64(n) * int64(count)
	}
}

// layOut lays out what was found, on the nodes of a kind in their order. It is
// false where limits that patterns do not see are in the way.
func (p *packing) layOut(v View) bool {
	p.start(v)
	of := make([]int, len(p.order))
	for i := range of {
		of[i] = -1
	}
	for k := range p.classes {
		nodes := p.classes[k].nodes
		for q, n := range p.used[k] {
			for ; n > 0; n-- {
				of[nodes[0]] = k<<32 | q
				nodes = nodes[1:]
			}
		}
	}
	left := slices.Clone(p.want)
	for i, at := range of {
		if at < 0 {
			continue
		}
		if !p.Charge(p.width) {
			return false
		}
		for s, count := range p.pattern(at>>32, at&(1<<32-1)) {
			if n := p.roomFor(s, i, min(left[s], int64(count))); n > 0 {
				p.put(s, i, n)
				p.runs = append(p.runs, Run{s, i, n})
				left[s] -= n
			}
		}
	}
	for s, n := range left {
		if p.fill(s, n) < n {
			return false
		}
	}
	return true
}
