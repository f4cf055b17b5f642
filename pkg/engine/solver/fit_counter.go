package solver

// A FitCounter counts how many slots of each shape fit while rows change, so that a layout is
// tried only when there may be room. Each shape is counted as if it were alone, so there is never
// less room than it says.
type FitCounter struct {
	*Layout
	index      []int32 // into the order, by position of a node
	fit        []int64 // by shape and index: how many slots fit, the least wanted at the most
	sums       []int64 // by shape
	countSteps int     // steps to count what fits on a node
}

// FitCounter returns a counter of a layout; nil where there are too few steps left for it.
func (b *Layout) FitCounter() *FitCounter {
	steps := 0
	for s := range b.shapes {
		steps += b.fitSteps(s)
	}
	if b.IsExhausted() || !b.chargeMemory(8*len(b.order)*len(b.shapes)) || !b.Charge(len(b.order)*steps) {
		return nil
	}
	c := &FitCounter{
		Layout: b, index: make([]int32, len(b.order)),
		fit: make([]int64, len(b.order)*len(b.shapes)), sums: make([]int64, len(b.shapes)),
		countSteps: steps,
	}
	b.start(ViewNow)
	for i, at := range b.order {
		c.index[at] = int32(i)
		c.count(i)
	}
	return c
}

// ChargeCount charges for counting a node anew, and for so many steps beside.
func (c *FitCounter) ChargeCount(beside int) bool { return c.Charge(beside + c.countSteps) }

// Count counts anew what fits on the node at a position. Who calls it has paid.
func (c *FitCounter) Count(at int) { c.count(int(c.index[at])) }

func (c *FitCounter) count(i int) {
	c.rowStamp[c.order[i]] = 0
	for s := range c.shapes {
		fit := &c.fit[s*len(c.order)+i]
		c.sums[s] -= *fit
		*fit = c.roomFor(s, i, c.shapes[s].Count.Min)
		c.sums[s] += *fit
	}
}

// MayFit says whether there is room for each shape alone.
func (c *FitCounter) MayFit() bool {
	for s, sum := range c.sums {
		if sum < c.shapes[s].Count.Min {
			return false
		}
	}
	return true
}

// Try lays out as many slots of every shape as there can be. It is false if there is no way, or
// none was found. Then nothing is laid out, and counting goes on.
func (c *FitCounter) Try() bool {
	if o, _ := c.SolveMin(ViewNow); o == Placed {
		c.extend()
		return true
	}
	c.start(ViewNow)
	return false
}
