package solver

// A FitCounter counts how many slots of each shape fit while the free amounts
// change, so that a placement is tried only if it may succeed. Each shape is
// counted as if it had the nodes for itself alone, so the counts are upper bounds.
type FitCounter struct {
	*Layout
	index      []int32 // by position of a node: its index into the order
	fit        []int64 // by shape and index: how many slots fit there, at most the minimum
	sums       []int64 // by shape: the sum over all nodes
	countSteps int     // the cost of counting what fits on one node
}

// FitCounter returns a fit counter for the layout, or nil if there are too few steps left for it.
func (b *Layout) FitCounter() *FitCounter {
	steps := 0
	for s := range b.shapes {
		steps += b.fitSteps(s)
	}
	if b.IsExhausted() || !b.chargeMemory(8*len(b.order)*len(b.shapes)) || !b.Charge(len(b.order)*steps) {
		return nil
	}
	c := &FitCounter{
		Layout: b, index: make([]int32, len(b.problem.Up)),
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

// ChargeCount charges the meter for one Count, and for this many steps besides.
func (c *FitCounter) ChargeCount(beside int) bool { return c.Charge(beside + c.countSteps) }

// SpendCounts takes the steps of n calls of Count, and this many steps besides.
func (c *FitCounter) SpendCounts(beside, n int) { c.Spend(beside + n*c.countSteps) }

// Restart begins an attempt, after another layout has used the workspace.
func (c *FitCounter) Restart() { c.start(ViewNow) }

// Count counts again what fits on the node at a position, whose free
// amounts have changed. The caller must call ChargeCount first.
func (c *FitCounter) Count(at int) { c.count(int(c.index[at])) }

// count counts again what fits on the node with index i.
func (c *FitCounter) count(i int) {
	at, needs := c.order[i], c.problem.Needs
	if row := c.rowAt(at, len(needs)); row != nil {
		for k := range needs {
			row[k] = needs[k].amount(c.view, at)
		}
	}
	for s := range c.shapes {
		fit := &c.fit[s*len(c.order)+i]
		c.sums[s] -= *fit
		*fit = c.roomFor(s, i, c.shapes[s].Count.Min)
		c.sums[s] += *fit
	}
}

// Room returns how many slots of a shape fit on the node at a position, at most the minimum of the shape.
func (c *FitCounter) Room(s int, at int32) int64 { return c.fit[s*len(c.order)+int(c.index[at])] }

// Sum returns the sum of Room over all nodes.
func (c *FitCounter) Sum(s int) int64 { return c.sums[s] }

// RoomBeside returns how many slots of a shape fit on the node at a position if these amounts are free there, by need,
// and nobody else has the node: at most the minimum of the shape. Limits are not considered.
func (c *FitCounter) RoomBeside(s int, at int32, free []int64) int64 {
	if _, now := c.constraintsAllow(s, int(c.index[at])); !now || !c.problem.Up[at] {
		return 0
	}
	return roomInRow(free, &c.shapes[s], c.shapes[s].Count.Min)
}

// IsExact reports whether MayFit is exact: the request has one shape, without limits and without a topology
// that can make a placement fail.
func (c *FitCounter) IsExact() bool {
	return len(c.shapes) == 1 && len(c.shapes[0].Limits) == 0 && len(c.levels) == 0
}

// MayFit reports whether the minimum count of each shape fits if the other shapes take no room.
func (c *FitCounter) MayFit() bool {
	for s, sum := range c.sums {
		if sum < c.shapes[s].Count.Min {
			return false
		}
	}
	return true
}

// Fits reports whether a placement of the minimum counts is found. Then no slots are placed, and the counter
// can be used further.
func (c *FitCounter) Fits() bool {
	o, _ := c.SolveMin(ViewNow)
	c.start(ViewNow)
	return o == Placed
}

// Try places as many slots of every shape as possible. It returns false if it finds
// no placement. Then no slots are placed, and the counter can be used further.
func (c *FitCounter) Try() bool {
	if o, _ := c.SolveMin(ViewNow); o == Placed {
		c.extend()
		return true
	}
	c.start(ViewNow)
	return false
}
