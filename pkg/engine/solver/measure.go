package solver

// A Figure says of one need how much the nodes have that a shape may use.
type NeedMeasurement struct {
	// Need is the index of the need, and Wanted what one slot takes of it.
	Need   int
	Wanted int64
	// Max is the largest amount that a node has.
	Max int64
	// Nodes counts the nodes that have less than Wanted.
	Nodes int64
}

// Measurement are what the nodes that a shape may use come to.
type Measurement struct {
	// Usable counts them.
	Usable int
	// Fit says that one of them has room for a slot.
	Fit bool
	// Needs has a figure for each need of a slot, in the order of the shape. A need that is met
	// has one too.
	Needs []NeedMeasurement
}

// A Survey says of a layout in numbers what is in the way of a shape.
type Survey struct{ layout *Layout }

// Survey returns the survey of the layout.
func (b *Layout) Survey() Survey { return Survey{b} }

// Measure begins an attempt and looks at every node that a shape may use.
func (y Survey) Measure(v View, s int) Measurement {
	y.layout.start(v)
	return y.measure(s)
}

// MeasureClosest does so in the domain that came closest.
func (y Survey) MeasureClosest(v View, failed *Shortfall) Measurement {
	return y.closest(failed).Measure(v, failed.Shape)
}

// closest returns the survey of the domain that came closest, if one is known.
func (y Survey) closest(failed *Shortfall) Survey {
	if failed.domain == nil {
		return y
	}
	return Survey{y.layout.withNodes(failed.domain.order)}
}

// MeasureFilled lays out as many slots as there is room for, and returns the figures of what is left. If near
// is set, and one domain is known to have come closest, the figures are of that domain alone.
func (y Survey) MeasureFilled(v View, failed *Shortfall, near bool) Measurement {
	if near {
		y = y.closest(failed)
	}
	b := y.layout
	b.start(v)
	for s := range failed.Shape {
		b.fill(s, b.shapes[s].Count.Min)
	}
	b.fill(failed.Shape, failed.Found)
	return y.measure(failed.Shape)
}

// measure looks at every node that a shape may use.
func (y Survey) measure(s int) Measurement {
	b := y.layout
	shape := &b.shapes[s]
	needs := make([]NeedMeasurement, len(shape.With))
	for at, k := range shape.With {
		needs[at] = NeedMeasurement{Need: k, Wanted: shape.Each[k]}
	}
	f := Measurement{Needs: needs}
	b.Spend(len(b.order) * (1 + len(shape.With)))
	for i := range b.order {
		if !b.isUsable(s, i) {
			continue
		}
		f.Usable++
		row, fits := b.row(i), true
		for at, k := range shape.With {
			needs[at].Max = max(needs[at].Max, row[k])
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

// CountUnusable counts the nodes that a shape may not use, with present now and else at any time: down
// nodes, and nodes that constraints exclude.
func (y Survey) CountUnusable(s int, present bool) (down, excluded int64) {
	b := y.layout
	b.Spend(len(b.order))
	for i, at := range b.order {
		always, now := b.constraintsAllow(s, i)
		switch {
		case !b.problem.Up[at]:
			down++
		case !always || present && !now:
			excluded++
		}
	}
	return down, excluded
}

// CountConflicts counts the nodes that a shape could use, in the view of the last attempt, if no other
// holder had them: whole are the nodes of another holder, inUse those where others hold something
// and nodes are wanted whole.
func (y Survey) CountConflicts(s int) (whole, inUse int64) {
	b := y.layout
	b.Spend(len(b.order))
	for i, at := range b.order {
		if _, now := b.constraintsAllow(s, i); !b.problem.Up[at] || !now {
			continue
		}
		switch b.conflict(at) {
		case OtherHolder:
			whole++
		case InUse:
			inUse++
		case NoConflict:
		}
	}
	return whole, inUse
}

// RoomInClosest lays out as many slots as there is room for of the least of the shape that failed, those
// before it laid out, in the domain that came closest. It returns how many there are.
func (y Survey) RoomInClosest(failed *Shortfall) int64 {
	part := y.closest(failed).layout
	part.start(ViewNow)
	for s := range failed.Shape {
		part.fill(s, part.shapes[s].Count.Min)
	}
	return part.fill(failed.Shape, part.shapes[failed.Shape].Count.Min)
}
