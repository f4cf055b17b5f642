package solver

// A Figure says of one need how much the nodes have that a shape may use.
type Figure struct {
	// Need is the index of the need, and Wanted what one slot takes of it.
	Need   int
	Wanted int64
	// Most is the largest amount that a node has.
	Most int64
	// Nodes counts the nodes that have less than Wanted.
	Nodes int64
}

// Figures are what the nodes that a shape may use come to.
type Figures struct {
	// Usable counts them.
	Usable int
	// Fit says that one of them has room for a slot.
	Fit bool
	// Needs has a figure for each need of a slot, in the order of the shape. A need that is met
	// has one too.
	Needs []Figure
}

// A Survey says of a layout in numbers what is in the way of a shape.
type Survey struct{ layout *Layout }

// Survey returns the survey of the layout.
func (b *Layout) Survey() Survey { return Survey{b} }

// Measure begins an attempt and looks at every node that a shape may use.
func (y Survey) Measure(v View, s int) Figures {
	y.layout.start(v)
	return y.measure(s)
}

// MeasureNear does so in the domain that came closest.
func (y Survey) MeasureNear(v View, failed *Shortfall) Figures {
	return y.near(failed).Measure(v, failed.Shape)
}

// near returns the survey of the domain that came closest, if one is known.
func (y Survey) near(failed *Shortfall) Survey {
	if failed.in == nil {
		return y
	}
	return Survey{y.layout.on(failed.in.order)}
}

// RunOut lays out as many slots as there is room for, and returns the figures of what is left. If near
// is set, and one domain is known to have come closest, the figures are of that domain alone.
func (y Survey) RunOut(v View, failed *Shortfall, near bool) Figures {
	if near {
		y = y.near(failed)
	}
	b := y.layout
	b.start(v)
	for s := range failed.Shape {
		b.lay(s, b.asked[s].Count.Min)
	}
	b.lay(failed.Shape, failed.Found)
	return y.measure(failed.Shape)
}

// measure looks at every node that a shape may use.
func (y Survey) measure(s int) Figures {
	b := y.layout
	shape := &b.asked[s]
	needs := make([]Figure, len(shape.With))
	for at, k := range shape.With {
		needs[at] = Figure{Need: k, Wanted: shape.Each[k]}
	}
	f := Figures{Needs: needs}
	b.Owe(len(b.order) * (1 + len(shape.With)))
	for i := range b.order {
		if !b.usable(s, i) {
			continue
		}
		f.Usable++
		row, fits := b.row(i), true
		for at, k := range shape.With {
			needs[at].Most = max(needs[at].Most, row[k])
			if row[k] < shape.Each[k] {
				needs[at].Nodes++
				fits = false
			}
		}
		f.Fit = f.Fit || fits
	}
	return f
}

// Nodes returns how many nodes there are.
func (y Survey) Nodes() int { return len(y.layout.order) }

// Unusable counts the nodes that a shape may not use, with present now and else at any time: down
// nodes, and nodes that constraints exclude.
func (y Survey) Unusable(s int, present bool) (down, excluded int64) {
	b := y.layout
	b.Owe(len(b.order))
	for i, at := range b.order {
		always, now := b.permit(s, i)
		switch {
		case !b.problem.Up[at]:
			down++
		case !always || present && !now:
			excluded++
		}
	}
	return down, excluded
}

// Hindered counts the nodes that a shape could use, in the view of the last attempt, if no other
// holder had them: whole are the nodes of another holder, inUse those where others hold something
// and nodes are wanted whole.
func (y Survey) Hindered(s int) (whole, inUse int64) {
	b := y.layout
	b.Owe(len(b.order))
	for i, at := range b.order {
		if _, now := b.permit(s, i); !b.problem.Up[at] || !now {
			continue
		}
		switch b.conflict(at) {
		case OfAnother:
			whole++
		case InUse:
			inUse++
		case NoConflict:
		}
	}
	return whole, inUse
}

// Least lays out as many slots as there is room for of the least of the shape that failed, those
// before it laid out, in the domain that came closest. It returns how many there are.
func (y Survey) Least(failed *Shortfall) int64 {
	part := y.near(failed).layout
	part.start(SeeNow)
	for s := range failed.Shape {
		part.lay(s, part.asked[s].Count.Min)
	}
	return part.lay(failed.Shape, part.asked[failed.Shape].Count.Min)
}
