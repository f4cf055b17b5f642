package engine

import (
	"math"
	"slices"
)

const (
	// topPrice is the most that one slot is worth.
	topPrice = 1 << 20
	// priceRounds is how often prices are adjusted.
	priceRounds = 40
)

// setPrices looks for prices of the slots at which the dearest patterns of all nodes
// are worth the least beside what is wanted. With complete lists of patterns it is
// true if they are worth less than that: then there is no way to have it all.
func (p *packing) setPrices(complete bool) (impossible bool) {
	now := make([]float64, p.width)
	all := p.capacity()
	for s := range now {
		now[s] = p.ask.shapes[s].share(all)
	}
	p.price = make([]int64, p.width)
	price := make([]int64, p.width)
	have := make([]int64, p.width)
	least := math.Inf(1)
	for round := range priceRounds {
		top := slices.Max(now)
		for s := range now {
			now[s] = max(now[s]/top, 1.0/topPrice)
			price[s] = int64(now[s] * topPrice)
		}
		worth, wanted := p.offer(price, have), int64(0)
		for s, n := range p.want {
			wanted += n * price[s]
		}
		if complete && worth < wanted {
			return true
		}
		if ratio := float64(worth) / float64(wanted); ratio < least {
			least = ratio
			copy(p.price, price)
		}
		if p.budget < 0 {
			break
		}
		step := 1 / (1 + float64(round)/4)
		for s, n := range p.want {
			over := min(1, max(-1, float64(have[s]-n)/float64(n)))
			now[s] *= math.Exp(-step * over)
		}
	}
	return false
}

// offer returns what all nodes are worth, each with its dearest pattern, and fills in
// how many slots of each shape that makes.
func (p *packing) offer(price, have []int64) int64 {
	clear(have)
	total := int64(0)
	for k := range p.kinds {
		p.spend(len(p.kinds[k].patterns))
		best, most := 0, int64(-1)
		for q := range len(p.kinds[k].patterns) / p.width {
			worth := int64(0)
			for s, count := range p.pattern(k, q) {
				worth += int64(count) * price[s]
			}
			if worth > most {
				best, most = q, worth
			}
		}
		n := int64(len(p.kinds[k].nodes))
		total += n * most
		for s, count := range p.pattern(k, best) {
			have[s] += n * int64(count)
		}
	}
	return total
}
