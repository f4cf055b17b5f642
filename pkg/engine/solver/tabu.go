package solver

import "slices"

// topWeight bounds what a missing slot costs.
const topWeight = 1 << 32

// A swap is a node of a kind that changes from one pattern to another.
type swap struct {
	kind, from, to int
	cost           int64
}

// An exchange is a search by steps from one packing to the next.
type exchange struct {
	*packing
	round int
	// weight is what a missing slot of a shape costs.
	weight []int64
	// rest is by kind the round up to which it stays as it is, left by kind and pattern
	// that up to which no node gets the pattern again.
	rest []int
	left [][]int
}

func (p *packing) newExchange() *exchange {
	x := &exchange{packing: p, weight: slices.Clone(p.price), rest: make([]int, len(p.kinds)), left: make([][]int, len(p.kinds))}
	for k := range x.left {
		x.left[k] = make([]int, len(p.used[k]))
	}
	return x
}

// run changes the pattern of one node after the other, each time the one change
// that leaves the least missing, whether or not that is less than before; a kind that
// was changed rests for a while. What is missing for long gets dearer. It is true
// once nothing is missing.
func (x *exchange) run(budget int) bool {
	for end := x.budget - budget; x.budget > end && !x.done(); x.round++ {
		best := swap{kind: -1}
		for k := range x.kinds {
			if x.rest[k] <= x.round {
				x.best(k, &best)
			}
		}
		if best.kind >= 0 {
			x.change(best)
		}
		if x.round%8 == 0 {
			x.press()
		}
	}
	return x.done()
}

// change carries out a change.
func (x *exchange) change(c swap) {
	x.use(c.kind, c.from, -1)
	x.use(c.kind, c.to, 1)
	until := x.round + 3 + x.rand.IntN(1+min(10, len(x.kinds)/2))
	if len(x.kinds[c.kind].nodes) == 1 {
		x.rest[c.kind] = until
	}
	x.left[c.kind][c.from] = until + x.rand.IntN(4)
}

// press has what is missing get dearer.
func (x *exchange) press() {
	top := int64(0)
	for s, n := range x.short {
		if n > 0 {
			x.weight[s] += x.weight[s]/8 + 1
		}
		top = max(top, x.weight[s])
	}
	for s := range x.weight {
		if top > topWeight {
			x.weight[s] = max(1, x.weight[s]>>8)
		}
	}
}

// done says whether nothing is missing.
func (x *exchange) done() bool {
	for _, n := range x.short {
		if n > 0 {
			return false
		}
	}
	return true
}

// best finds the best change of a node of a kind, if it is better than what was found
// before.
func (x *exchange) best(k int, best *swap) {
	for from, n := range x.used[k] {
		if n == 0 || x.budget < 0 {
			continue
		}
		if !x.afford(len(x.kinds[k].patterns)) {
			return
		}
		x.use(k, from, -1)
		for to := range x.used[k] {
			if to == from || x.left[k][to] > x.round {
				continue
			}
			cost := int64(0)
			for s, count := range x.pattern(k, to) {
				cost += max(0, x.short[s]-int64(count)) * x.weight[s]
			}
			if best.kind < 0 || cost < best.cost {
				*best = swap{k, from, to, cost}
			}
		}
		x.use(k, from, 1)
	}
}
