package solver

import "math"

// setLimits sets the limits of the layout and adds their cells, in which no slot is placed yet.
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

// addCells appends the cells of a limit to the allowances.
func (w *Workspace) addCells(x *Limit) {
	x.firstCell = int32(len(w.allowances))
	w.allowances = append(w.allowances, make([]int64, x.Cells)...)
	w.cellStamp = append(w.cellStamp, make([]int32, x.Cells)...)
}

// allowance returns how many more slots limit k allows on the node at a
// position. It returns math.MaxInt64 if the limit does not bound the node.
func (b *Layout) allowance(k int, at int32) int64 {
	c := b.limits[k].CellOf[at]
	if c < 0 {
		return math.MaxInt64
	}
	return b.allowanceIn(k, c)
}

// allowanceIn returns how many more slots limit k allows in cell c.
func (b *Layout) allowanceIn(k int, c int32) int64 {
	x := &b.limits[k]
	if b.cellStamp[x.firstCell+c] == b.stamp {
		return b.allowances[x.firstCell+c]
	}
	return x.maxIn(c)
}

// maxIn returns how many slots the limit allows in cell c in all.
func (x *Limit) maxIn(c int32) int64 {
	if x.maxByCell != nil {
		return x.maxByCell[c]
	}
	return x.Max
}

// countInLimit subtracts n slots on the node at a position from what limit k allows.
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

// limitsNest reports whether the limits of a shape are laminar: if two of
// their cells share a node, one of the cells lies inside the other. Filling
// node by node then places the largest possible number of slots of the shape.
// limitsNest returns false if there are too few steps left to find out.
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

// nestedCells reports whether, of any cell of x and any
// cell of y that share a node, one lies inside the other.
func nestedCells(order []int32, x, y *Limit) bool {
	inY, inX := insideOneCell(order, x, y), insideOneCell(order, y, x)
	for _, at := range order {
		if c, d := x.CellOf[at], y.CellOf[at]; c >= 0 && d >= 0 && !inY[c] && !inX[d] {
			return false
		}
	}
	return true
}

// insideOneCell returns, for each cell of x, whether its
// nodes are all in the same cell of y, or all in none.
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

// exceedsLimit reports whether some limit proves that no placement exists:
// the shapes that are subject to the limit want more slots than fit under
// it. Each shape is counted as if it had the nodes for itself alone.
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
