package solver

import "math"

const (
	// topPrice is the most that one slot is worth.
	topPrice = 1 << 20
	// How often prices are adjusted before anything is tried, and after every turn.
	firstRounds, moreRounds = 12, 12
)

// A market looks for prices of the slots at which the dearest patterns of all nodes
// are worth as little as can be beside what is wanted.
type dualBound struct {
	*packing
	prices        []float64
	round         int
	minRatio      float64
	roundedPrices []int64
	have          []int64
}

// newDualBound begins with these prices, whatever they are counted in.
func (p *packing) newDualBound(first []float64) *dualBound {
	p.price = make([]int64, p.width)
	return &dualBound{
		packing: p, prices: first, minRatio: math.Inf(1),
		roundedPrices: make([]int64, p.width), have: make([]int64, p.width),
	}
}

// run adjusts the prices: of what there is enough of they fall. It is true if the
// nodes are worth less than what is wanted, so that there is no way to have it all.
func (m *dualBound) run(rounds int) (impossible bool) {
	for range rounds {
		m.roundPrices()
		worth, ok := m.evaluate()
		if !ok {
			return false
		}
		wanted := int64(0)
		for s, n := range m.want {
			wanted += n * m.roundedPrices[s]
		}
		if worth < wanted && m.allListed {
			return true
		}
		if ratio := float64(worth) / float64(wanted); ratio < m.minRatio {
			m.minRatio = ratio
			copy(m.price, m.roundedPrices)
		}
		if m.budget < 0 {
			return false
		}
		m.round++
		step := 1 / (1 + float64(m.round)/4)
		for s, n := range m.want {
			over := float64(m.have[s]-n) / float64(n)
			m.prices[s] *= math.Exp(-step * min(1, max(-1, over)))
		}
	}
	return false
}

// roundPrices writes the prices down as whole numbers, so that sums of them are exact.
func (m *dualBound) roundPrices() {
	top := 0.0
	for _, price := range m.prices {
		top = max(top, price)
	}
	for s := range m.prices {
		m.prices[s] = max(m.prices[s]/top, 1.0/topPrice)
		m.roundedPrices[s] = int64(m.prices[s] * topPrice)
	}
}

// evaluate returns what all nodes are worth, each with its dearest pattern, and notes how
// many slots of each shape that makes. It is false where there is no work left to find that out.
func (m *dualBound) evaluate() (worth int64, ok bool) {
	clear(m.have)
	total := int64(0)
	for k := range m.classes {
		if !m.chargeBudget(len(m.classes[k].patterns)) {
			return 0, false
		}
		best, most := 0, int64(-1)
		for q := range len(m.classes[k].patterns) / m.width {
			worth := int64(0)
			for s, count := range m.pattern(k, q) {
				worth += int64(count) * m.roundedPrices[s]
			}
			if worth > most {
				best, most = q, worth
			}
		}
		n := int64(len(m.classes[k].nodes))
		total += n * most
		for s, count := range m.pattern(k, best) {
			m.have[s] += n * int64(count)
		}
	}
	return total, true
}
