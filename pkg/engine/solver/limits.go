package solver

import "math"

// bound has the layout keep limits. Nothing is laid out in their cells yet.
func (b *Layout) bound(limits []Limit) {
	if len(limits) == 0 {
		return
	}
	b.left, b.settled = b.left[:0], b.settled[:0]
	b.bounds = limits
	for k := range b.bounds {
		b.addCells(&b.bounds[k])
	}
}

// addCells makes room for the allowances of a limit.
func (w *Workspace) addCells(x *Limit) {
	x.base = int32(len(w.left))
	w.left = append(w.left, make([]int64, x.Cells)...)
	w.settled = append(w.settled, make([]int32, x.Cells)...)
}

// allowed returns how many slots a bound allows on the node at a position.
func (b *Layout) allowed(k int, at int32) int64 {
	c := b.bounds[k].Of[at]
	if c < 0 {
		return math.MaxInt64
	}
	return b.allowedIn(k, c)
}

// allowedIn returns how many slots a bound allows in a cell.
func (b *Layout) allowedIn(k int, c int32) int64 {
	x := &b.bounds[k]
	if b.settled[x.base+c] == b.attempt {
		return b.left[x.base+c]
	}
	return x.full(c)
}

// full is what a bound allows in a cell where nothing is laid out.
func (x *Limit) full(c int32) int64 {
	if x.each != nil {
		return x.each[c]
	}
	return x.Most
}

// spend counts n slots on the node at a position.
func (b *Layout) spend(k int, at int32, n int64) {
	x := &b.bounds[k]
	c := x.Of[at]
	if c < 0 {
		return
	}
	if at := x.base + c; b.settled[at] != b.attempt {
		b.settled[at], b.left[at] = b.attempt, x.full(c)
	}
	b.left[x.base+c] -= n
}

// nested says whether of any two cells of a shape's limits that share nodes one
// lies in the other: then to fill up node by node lays out the most that there can
// be.
func (b *Layout) nested(s int) bool {
	limits := b.asked[s].Limits
	for i, k := range limits {
		for _, other := range limits[:i] {
			x, y := &b.bounds[k], &b.bounds[other]
			if !b.Charge(3*len(b.order)+2*int(x.Cells+y.Cells)) || !nest(b.order, x, y) {
				return false
			}
		}
	}
	return true
}

// nest says so of two limits.
func nest(order []int32, x, y *Limit) bool {
	inY, inX := alike(order, x, y), alike(order, y, x)
	for _, at := range order {
		if c, d := x.Of[at], y.Of[at]; c >= 0 && d >= 0 && !inY[c] && !inX[d] {
			return false
		}
	}
	return true
}

// alike says of the cells of a limit whether all nodes of each are in one cell of
// another, or all in none.
func alike(order []int32, x, y *Limit) []bool {
	first, alike := make([]int32, x.Cells), make([]bool, x.Cells)
	seen := make([]bool, x.Cells)
	for _, at := range order {
		switch c := x.Of[at]; {
		case c < 0:
		case !seen[c]:
			seen[c], alike[c], first[c] = true, true, y.Of[at]
		case first[c] != y.Of[at]:
			alike[c] = false
		}
	}
	return alike
}

// overbound says whether the shapes that keep one limit want more slots than it
// allows on the nodes that they may use, with each shape counted as if it were
// alone.
func (b *Layout) overbound(v View) bool {
	if len(b.bounds) == 0 {
		return false
	}
	if !b.Charge(len(b.left)) {
		return false
	}
	b.start(v)
	b.sums = grown(b.sums, len(b.left))
	clear(b.sums)
	wanted, free := make([]int64, len(b.bounds)), make([]int64, len(b.bounds))
	for s := range b.asked {
		shape := &b.asked[s]
		if len(shape.Limits) == 0 {
			continue
		}
		if !b.Charge(len(b.order) * b.steps(s)) {
			return false
		}
		least := shape.Count.Min
		for _, k := range shape.Limits {
			wanted[k] = Plus(wanted[k], least)
		}
		for i, at := range b.order {
			n := b.fits(s, i, least)
			for _, k := range shape.Limits {
				x := &b.bounds[k]
				if c := x.Of[at]; c >= 0 {
					b.sums[x.base+c] = Plus(b.sums[x.base+c], n)
				} else {
					free[k] = Plus(free[k], n)
				}
			}
		}
	}
	for k := range b.bounds {
		x := &b.bounds[k]
		for c := range x.Cells {
			free[k] = Plus(free[k], min(b.sums[x.base+c], x.full(c)))
		}
		if wanted[k] > free[k] {
			return !b.Spent()
		}
	}
	return false
}
