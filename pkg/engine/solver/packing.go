package solver

import (
	"math/rand/v2"
	"slices"
)

// A packing searches for one pattern per node so that all patterns together have the
// slots that are wanted, as in cutting stock. A pattern says how many slots of each shape
// one node gets. A packing ignores limits that span several nodes. So its proof that no
// placement exists is valid, but a solution must still be placed to check the limits.
type packing struct {
	*Layout
	// shapeOrder is the order of the shapes in which patterns are enumerated.
	shapeOrder []int
	// width is the number of shapes.
	width   int
	want    []int64 // by shape: how many slots are wanted
	classes []nodeClass
	// allListed is set if all patterns of every class are listed. Proofs are valid only then.
	allListed bool
	// countsPerShape is how many different counts of one shape are enumerated if a node
	// has too many patterns to list all. It halves until few enough patterns are left.
	countsPerShape int64
	// bestPrices[s] is the dual price of a slot of shape s, at most topPrice.
	bestPrices []int64
	// used[k][q] is the number of nodes of class k that have pattern q.
	used [][]int32
	// short[s] is the number of slots of shape s that are missing. It
	// is negative if the patterns have more slots than are wanted.
	short       []int64
	rand        *rand.Rand
	countBudget int
}

// pack searches for a placement of the minimum counts by
// patterns. It returns the outcome and the budget that is left.
func pack(b *Layout, v View, order []int, budget int) (Outcome, int) {
	b.start(v)
	p := &packing{
		Layout: b, shapeOrder: order, width: len(order), want: make([]int64, len(order)),
		countsPerShape: maxCountsPerShape, countBudget: budget,
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
	return o, max(0, p.countBudget)
}

// solve searches for patterns that have all slots that are wanted, or
// for a proof that there are none. It tries tabu search, the dual
// bound and branch and bound in turns. The budget doubles every turn.
func (p *packing) solve() (found, proven bool) {
	m := p.newDualBound(p.shares())
	if m.run(firstRounds) {
		return false, true
	}
	p.startGreedily()
	x := p.newTabuSearch()
	var t *branchAndBound
	for turnBudget := 1 + p.countBudget/32; p.countBudget > 0; turnBudget *= 2 {
		if x.run(min(turnBudget, p.countBudget)) {
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
		if found, proven := t.run(min(turnBudget, p.countBudget)); found || proven {
			return found, proven && p.allListed
		}
	}
	return false, false
}

// shares returns the dominant share of one slot, by shape. These are the first prices.
func (p *packing) shares() []float64 {
	all, shares := p.totals(), make([]float64, p.width)
	for s := range shares {
		shares[s] = p.shapes[s].maxShare(all)
	}
	return shares
}

// spendBudget takes n steps from the meter and from the search's budget, even if
// none are left. A step of the search is one count of a pattern that is read.
func (p *packing) spendBudget(n int) {
	p.Spend(n)
	if p.countBudget -= n; p.IsExhausted() {
		p.countBudget = -1
	}
}

// chargeBudget takes many steps at once. If the meter has too few left, it returns
// false and the caller must not do the work. The search's budget may become negative.
func (p *packing) chargeBudget(n int) bool {
	if p.IsExhausted() || !p.Charge(n) {
		p.countBudget = -1
		return false
	}
	p.countBudget -= n
	return true
}

// pattern returns pattern q of class k: a count of slots per shape.
func (p *packing) pattern(k, q int) []int32 {
	return p.classes[k].patterns[q*p.width : (q+1)*p.width : (q+1)*p.width]
}

// startGreedily gives every node a pattern: each time the pattern
// whose slots, of those still missing, have the highest value.
func (p *packing) startGreedily() {
	p.short = slices.Clone(p.want)
	p.used = make([][]int32, len(p.classes))
	for k := range p.classes {
		p.used[k] = make([]int32, len(p.classes[k].patterns)/p.width)
		for left := int64(len(p.classes[k].nodes)); left > 0; {
			if p.countBudget < 0 {
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

// mostValuable returns the pattern of a class that has the
// highest value. Only slots that are still missing count.
func (p *packing) mostValuable(k int) int {
	best, most := 0, int64(-1)
	if !p.chargeBudget(len(p.classes[k].patterns)) {
		return best
	}
	for q := range p.used[k] {
		worth := int64(0)
		for s, count := range p.pattern(k, q) {
			worth += min(max(0, p.short[s]), int64(count)) * p.bestPrices[s]
		}
		if worth > most {
			best, most = q, worth
		}
	}
	return best
}

// use gives pattern q to n more nodes of class k. If
// n is negative, it takes the pattern from -n nodes.
func (p *packing) use(k, q int, n int32) {
	p.used[k][q] += n
	for s, count := range p.pattern(k, q) {
		p.short[s] -= int64(n) * int64(count)
	}
}

// layOut places the solution on the nodes. It returns
// false if limits that span several nodes prevent that.
func (p *packing) layOut(v View) bool {
	p.start(v)
	patternOf := make([]int, len(p.order))
	for i := range patternOf {
		patternOf[i] = -1
	}
	for k := range p.classes {
		nodes := p.classes[k].nodes
		for q, n := range p.used[k] {
			for ; n > 0; n-- {
				patternOf[nodes[0]] = k<<32 | q
				nodes = nodes[1:]
			}
		}
	}
	left := slices.Clone(p.want)
	for i, at := range patternOf {
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
