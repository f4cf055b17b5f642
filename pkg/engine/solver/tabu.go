package solver

import "slices"

// topWeight is the weight above which all weights are scaled down.
const topWeight = 1 << 32

// A move of the tabu search changes one node of a class from one pattern to another.
type move struct {
	class, from, to int
	// cost is the weighted number of slots that are missing after the move.
	cost int64
}

// A tabuSearch improves the patterns of the nodes by one move per round.
type tabuSearch struct {
	*packing
	round int
	// weight[s] is the penalty for each missing slot of shape s.
	weight []int64
	// classTabu[k] is the first round in which class k may change again.
	classTabu []int
	// patternTabu[k][q] is the first round in which a node of class k may get pattern q again.
	patternTabu [][]int
}

func (p *packing) newTabuSearch() *tabuSearch {
	x := &tabuSearch{packing: p, weight: slices.Clone(p.bestPrices), classTabu: make([]int, len(p.classes)), patternTabu: make([][]int, len(p.classes))}
	for k := range x.patternTabu {
		x.patternTabu[k] = make([]int, len(p.used[k]))
	}
	return x
}

// run makes moves until no slot is missing or the budget is used up. Each round it makes
// the cheapest move that is not tabu, even if more slots are missing afterwards. The weight
// of a shape rises while its slots are missing. run reports whether no slot is missing.
func (x *tabuSearch) run(budget int) bool {
	for end := x.countBudget - budget; x.countBudget > end && !x.isDone(); x.round++ {
		best := move{class: -1}
		for k := range x.classes {
			if x.classTabu[k] <= x.round {
				x.best(k, &best)
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

// apply makes a move. No node of the class may get the old pattern back for a few rounds (the
// tenure). If the class has one node only, the class does not change at all for some rounds.
func (x *tabuSearch) apply(c move) {
	x.use(c.class, c.from, -1)
	x.use(c.class, c.to, 1)
	until := x.round + 3 + x.rand.IntN(1+min(10, len(x.classes)/2))
	if len(x.classes[c.class].nodes) == 1 {
		x.classTabu[c.class] = until
	}
	x.patternTabu[c.class][c.from] = until + x.rand.IntN(4)
}

// raiseWeights raises the weights of the shapes that have missing
// slots. It scales all weights down if one is above topWeight.
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

// isDone reports whether no slot is missing.
func (x *tabuSearch) isDone() bool {
	for _, n := range x.short {
		if n > 0 {
			return false
		}
	}
	return true
}

// best sets *best to the cheapest move of class k that
// is not tabu, if that move is cheaper than *best.
func (x *tabuSearch) best(k int, best *move) {
	for from, n := range x.used[k] {
		if n == 0 || x.countBudget < 0 {
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
			if best.class < 0 || cost < best.cost {
				*best = move{k, from, to, cost}
			}
		}
		x.use(k, from, 1)
	}
}
