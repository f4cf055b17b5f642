package solver

import "math"

// setLimits has the layout keep limits. Nothing is laid out in their cells yet.
func (b *Layout) setLimits(limits []Limit) {
	if len(limits) == 0 {
		return
	}
	b.allowances, b.cellStamp = b.allowances[:0], b.cellStamp[:0]
	b.limits = limits
	for k := range b.limits {
		b.addCells(&b.limits[k])
	}
}

// addCells makes room for the allowances of a limit.
func (w *Workspace) addCells(x *Limit) {
	x.firstCell = int32(len(w.allowances))
	w.allowances = append(w.allowances, make([]int64, x.Cells)...)
	w.cellStamp = append(w.cellStamp, make([]int32, x.Cells)...)
}

// allowance returns how many slots a bound allows on the node at a position.
func (b *Layout) allowance(k int, at int32) int64 {
	c := b.limits[k].CellOf[at]
	if c < 0 {
		return math.MaxInt64
	}
	return b.allowanceIn(k, c)
}

// allowanceIn returns how many slots a bound allows in a cell.
func (b *Layout) allowanceIn(k int, c int32) int64 {
	x := &b.limits[k]
	if b.cellStamp[x.firstCell+c] == b.stamp {
		return b.allowances[x.firstCell+c]
	}
	return x.maxIn(c)
}

// maxIn is what a bound allows in a cell where nothing is laid out.
func (x *Limit) maxIn(c int32) int64 {
	if x.maxByCell != nil {
		return x.maxByCell[c]
	}
	return x.Max
}

// countInLimit counts n slots on the node at a position.
func (b *Layout) countInLimit(k int, at int32, n int64) {
	x := &b.limits[k]
	c := x.CellOf[at]
	if c < 0 {
		return
	}
	if at := x.firstCell + c; b.cellStamp[at] != b.stamp {
		b.cellStamp[at], b.allowances[at] = b.stamp, x.maxIn(c)
	}
	b.allowances[x.firstCell+c] -= n
}

// limitsNest says whether of any two cells of a shape's limits that share nodes one
// lies in the other: then to fill up node by node lays out the most that there can
// be.
func (b *Layout) limitsNest(s int) bool {
	limits := b.shapes[s].Limits
	for i, k := range limits {
		for _, other := range limits[:i] {
			x, y := &b.limits[k], &b.limits[other]
			if !b.Charge(3*len(b.order)+2*int(x.Cells+y.Cells)) || !nestedCells(b.order, x, y) {
				return false
			}
		}
	}
	return true
}

// nestedCells says so of two limits.
func nestedCells(order []int32, x, y *Limit) bool {
	inY, inX := insideOneCell(order, x, y), insideOneCell(order, y, x)
	for _, at := range order {
		if c, d := x.CellOf[at], y.CellOf[at]; c >= 0 && d >= 0 && !inY[c] && !inX[d] {
			return false
		}
	}
	return true
}

// insideOneCell says of the cells of a limit whether all nodes of each are in one cell of
// another, or all in none.
func insideOneCell(order []int32, x, y *Limit) []bool {
	first, alike := make([]int32, x.Cells), make([]bool, x.Cells)
	seen := make([]bool, x.Cells)
	for _, at := range order {
		switch c := x.CellOf[at]; {
		case c < 0:
		case !seen[c]:
			seen[c], alike[c], first[c] = true, true, y.CellOf[at]
		case first[c] != y.CellOf[at]:
			alike[c] = false
		}
	}
	return alike
}

// exceedsLimit says whether the shapes that keep one limit want more slots than it
// allows on the nodes that they may use, with each shape counted as if it were
// alone.
func (b *Layout) exceedsLimit(v View) bool {
	if len(b.limits) == 0 {
		return false
	}
	if !b.Charge(len(b.allowances)) {
		return false
	}
	b.start(v)
	b.sums = resized(b.sums, len(b.allowances))
	clear(b.sums)
	wanted, free := make([]int64, len(b.limits)), make([]int64, len(b.limits))
	for s := range b.shapes {
		shape := &b.shapes[s]
		if len(shape.Limits) == 0 {
			continue
		}
		if !b.Charge(len(b.order) * b.fitSteps(s)) {
			return false
		}
		least := shape.Count.Min
		for _, k := range shape.Limits {
			wanted[k] = SatAdd(wanted[k], least)
		}
		for i, at := range b.order {
			n := b.roomFor(s, i, least)
			for _, k := range shape.Limits {
				x := &b.limits[k]
				if c := x.CellOf[at]; c >= 0 {
					b.sums[x.firstCell+c] = SatAdd(b.sums[x.firstCell+c], n)
				} else {
					free[k] = SatAdd(free[k], n)
				}
			}
		}
	}
	for k := range b.limits {
		x := &b.limits[k]
		for c := range x.Cells {
			free[k] = SatAdd(free[k], min(b.sums[x.firstCell+c], x.maxIn(c)))
		}
		if wanted[k] > free[k] {
			return !b.IsExhausted()
		}
	}
	return false
}
