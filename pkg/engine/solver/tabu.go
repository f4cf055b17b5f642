package solver

import "slices"

// topWeight bounds what a missing slot costs.
const topWeight = 1 << 32

// A swap is a node of a kind that changes from one pattern to another.
type swap struct {
	class, from, to int
	cost            int64
}

// An exchange is a search by steps from one packing to the next.
type tabuSearch struct {
	*packing
	round int
	// weight is what a missing slot of a shape costs.
	weight []int64
	// classTabu is by kind the round up to which it stays as it is, left by kind and pattern
	// that up to which no node gets the pattern again.
	classTabu   []int
	patternTabu [][]int
}

func (p *packing) newTabuSearch() *tabuSearch {
	x := &tabuSearch{packing: p, weight: slices.Clone(p.price), classTabu: make([]int, len(p.classes)), patternTabu: make([][]int, len(p.classes))}
	for k := range x.patternTabu {
		x.patternTabu[k] = make([]int, len(p.used[k]))
	}
	return x
}

// run changes the pattern of one node after the other, each time the one change
// that leaves the least missing, whether or not that is less than before; a kind that
// was changed rests for a while. What is missing for long gets dearer. It is true
// once nothing is missing.
func (x *tabuSearch) run(budget int) bool {
	for end := x.budget - budget; x.budget > end && !x.isDone(); x.round++ {
		best := swap{class: -1}
		for k := range x.classes {
			if x.classTabu[k] <= x.round {
				x.bestSwap(k, &best)
			}
		}
		if best.class >= 0 {
			x.apply(best)
		}
		if x.round%8 == 0 {
			x.raiseWeights()
		}
	}
	return x.isDone()
}

// apply carries out a change.
func (x *tabuSearch) apply(c swap) {
	x.use(c.class, c.from, -1)
	x.use(c.class, c.to, 1)
	until := x.round + 3 + x.rand.IntN(1+min(10, len(x.classes)/2))
	if len(x.classes[c.class].nodes) == 1 {
		x.classTabu[c.class] = until
	}
	x.patternTabu[c.class][c.from] = until + x.rand.IntN(4)
}

// raiseWeights has what is missing get dearer.
func (x *tabuSearch) raiseWeights() {
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

// isDone says whether nothing is missing.
func (x *tabuSearch) isDone() bool {
	for _, n := range x.short {
		if n > 0 {
			return false
		}
	}
	return true
}

// bestSwap finds the best change of a node of a kind, if it is better than what was found
// before.
func (x *tabuSearch) bestSwap(k int, bestSwap *swap) {
	for from, n := range x.used[k] {
		if n == 0 || x.budget < 0 {
			continue
		}
		if !x.chargeBudget(len(x.classes[k].patterns)) {
			return
		}
		x.use(k, from, -1)
		for to := range x.used[k] {
			if to == from || x.patternTabu[k][to] > x.round {
				continue
			}
			cost := int64(0)
			for s, count := range x.pattern(k, to) {
				cost += max(0, x.short[s]-int64(count)) * x.weight[s]
			}
			if bestSwap.class < 0 || cost < bestSwap.cost {
				*bestSwap = swap{k, from, to, cost}
			}
		}
		x.use(k, from, 1)
	}
}
