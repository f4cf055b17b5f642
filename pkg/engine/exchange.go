package engine

// An exchange is a node of a kind that changes from one pattern to another.
type swap struct {
	kind, from, to int
	cost           int64
}

// exchange changes the pattern of one node after the other, each time the one change
// that leaves the least missing, whether or not that is less than before; a kind that
// was changed rests for a while. What is missing for long gets dearer. It is true
// once nothing is missing.
func (p *packing) exchange(budget int) bool {
	weight := make([]int64, p.width)
	copy(weight, p.price)
	rest := make([]int, len(p.kinds))
	end := p.budget - budget
	for round := 1; p.budget > end; round++ {
		if p.missing(weight) == 0 {
			return true
		}
		best := swap{kind: -1}
		for k := range p.kinds {
			if rest[k] > round && len(p.kinds[k].nodes) == 1 {
				continue
			}
			p.best(k, weight, &best)
		}
		if best.kind < 0 {
			continue
		}
		p.use(best.kind, best.from, -1)
		p.use(best.kind, best.to, 1)
		rest[best.kind] = round + 2 + p.rand.IntN(1+min(10, len(p.kinds)/2))
		if round%8 == 0 {
			for s, n := range p.short {
				if n > 0 {
					weight[s] += weight[s]/8 + 1
				}
			}
		}
	}
	return p.missing(weight) == 0
}

// missing returns what the slots that are missing are worth.
func (p *packing) missing(weight []int64) int64 {
	cost := int64(0)
	for s, n := range p.short {
		cost += max(0, n) * weight[s]
	}
	return cost
}

// best finds the best change of a node of a kind, if it is better than what was found
// before.
func (p *packing) best(k int, weight []int64, best *swap) {
	for from, n := range p.used[k] {
		if n == 0 {
			continue
		}
		p.spend(len(p.kinds[k].patterns))
		p.use(k, from, -1)
		for to := range p.used[k] {
			if to == from {
				continue
			}
			cost := int64(0)
			for s, count := range p.pattern(k, to) {
				cost += max(0, p.short[s]-int64(count)) * weight[s]
			}
			if best.kind < 0 || cost < best.cost {
				*best = swap{k, from, to, cost}
			}
		}
		p.use(k, from, 1)
	}
}
