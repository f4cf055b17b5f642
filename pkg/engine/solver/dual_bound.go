package solver

import "math"

const (
	// topPrice is the highest price of a slot. Prices are whole numbers from 1 to topPrice.
	topPrice = 1 << 20
	// firstRounds is how often prices are updated before the
	// first turn, and moreRounds how often in every turn.
	firstRounds, moreRounds = 12, 12
)

// A dualBound computes the Lagrangian dual bound by a subgradient method. It searches for
// prices of slots that make the value of the nodes small compared with the value of the
// slots that are wanted. The value of a node is the value of its most valuable pattern.
// If the nodes are worth less than the slots that are wanted, no placement exists.
type dualBound struct {
	*packing
	currentPrices []float64
	round         int
	minRatio      float64
	roundedPrices []int64
	supplied      []int64
}

// newDualBound starts with the given prices. Only their ratios matter.
func (p *packing) newDualBound(first []float64) *dualBound {
	p.bestPrices = make([]int64, p.width)
	return &dualBound{
		packing: p, currentPrices: first, minRatio: math.Inf(1),
		roundedPrices: make([]int64, p.width), supplied: make([]int64, p.width),
	}
}

// run updates the prices for some rounds. The price of a shape falls if the
// most valuable patterns have more slots of it than are wanted, and rises if
// they have fewer. run returns true if it proves that no placement exists.
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
			copy(m.bestPrices, m.roundedPrices)
		}
		if m.countBudget < 0 {
			return false
		}
		m.round++
		step := 1 / (1 + float64(m.round)/4)
		for s, n := range m.want {
			over := float64(m.supplied[s]-n) / float64(n)
			m.currentPrices[s] *= math.Exp(-step * min(1, max(-1, over)))
		}
	}
	return false
}

// roundPrices scales the prices and rounds them to whole
// numbers, because sums of whole numbers are exact.
func (m *dualBound) roundPrices() {
	top := 0.0
	for _, price := range m.currentPrices {
		top = max(top, price)
	}
	for s := range m.currentPrices {
		m.currentPrices[s] = max(m.currentPrices[s]/top, 1.0/topPrice)
		m.roundedPrices[s] = int64(m.currentPrices[s] * topPrice)
	}
}

// evaluate returns the value of all nodes, each with its most valuable pattern. It sets supplied to the
// number of slots of each shape in these patterns. ok is false if there are too few steps left.
func (m *dualBound) evaluate() (worth int64, ok bool) {
	clear(m.supplied)
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
			m.supplied[s] += n * int64(count)
		}
	}
	return total, true
}
