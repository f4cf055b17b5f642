package solver

import "math/bits"

// A NeedMeasurement describes the amounts of one need on the nodes that a shape may use.
type NeedMeasurement struct {
	// Need is the index of the need.
	Need int
	// Wanted is the amount that one slot takes.
	Wanted int64
	// Max is the largest amount that a node has.
	Max int64
	// Nodes is the number of nodes that have less than Wanted. MaxShort is the largest amount on one
	// of these.
	Nodes, MaxShort int64
}

// Most returns the largest amount on one of the nodes that have less than Wanted or, if there are none, on
// any node.
func (m *NeedMeasurement) Most() int64 {
	if m.Nodes > 0 {
		return m.MaxShort
	}
	return m.Max
}

// A Measurement describes the nodes that a shape may use.
type Measurement struct {
	// Usable is the number of these nodes.
	Usable int
	// Fit is set if at least one of these nodes has enough
	// of every need for one slot. Limits are not considered.
	Fit bool
	// Needs has one entry per need of the shape, in the order
	// of Shape.NeedsInOrder, whether or not the nodes are short of it.
	Needs []NeedMeasurement
}

// A Survey collects the numbers that explain why a shape does not fit in a layout.
type Survey struct{ layout *Layout }

// Survey returns a survey of the layout.
func (b *Layout) Survey() Survey { return Survey{b} }

// Measure starts an attempt with no slots placed, and measures the nodes that a shape may use.
func (y Survey) Measure(v View, s int) Measurement {
	y.layout.start(v)
	return y.measure(s, 0)
}

// MeasureClosest is like Measure, for the shape that failed and in the domain that came closest.
func (y Survey) MeasureClosest(v View, failed *Shortfall) Measurement {
	return y.closest(failed).Measure(v, failed.Shape)
}

// closest returns a survey of the domain that came
// closest. It returns y if no such domain is known.
func (y Survey) closest(failed *Shortfall) Survey {
	if failed.domain == nil {
		return y
	}
	return Survey{y.layout.withNodes(failed.domain.order)}
}

// MeasureFilled places as many slots as the shortfall found room for, and
// measures what is left for the shape that failed. If near is set and the
// shortfall has a domain that came closest, it measures only that domain.
func (y Survey) MeasureFilled(v View, failed *Shortfall, near bool) Measurement {
	if near {
		y = y.closest(failed)
	}
	b := y.layout
	b.start(v)
	for s := range failed.Shape {
		b.fill(s, b.shapes[s].Count.Min)
	}
	more := failed.Found
	if len(b.shapes[failed.Shape].Limits) > 0 {
		b.fill(failed.Shape, more)
		more = 0
	}
	return y.measure(failed.Shape, more)
}

// measure measures the nodes that a shape may use, with what is placed now, and with up to this
// number of slots more. These are only counted. If there are any, the shape must have no limits.
func (y Survey) measure(s int, more int64) Measurement {
	b := y.layout
	shape := &b.shapes[s]
	needs := make([]NeedMeasurement, len(shape.NeedsInOrder))
	for j, k := range shape.NeedsInOrder {
		needs[j] = NeedMeasurement{Need: k, Wanted: shape.AmountPerSlot[k]}
	}
	f := Measurement{Needs: needs}
	b.Spend(len(b.order) * (1 + len(shape.NeedsInOrder)))
	if more > 0 {
		b.Spend(len(b.order) * b.fitSteps(s))
	}
	x := newChunk(b, s)
	for i := 0; i < len(b.order); i += chunkNodes {
		x.read(i, min(len(b.order), i+chunkNodes))
		if more > 0 {
			more -= x.fit(more)
		}
		f.Usable += bits.OnesCount64(x.usable)
		short := uint64(0)
		for j := range needs {
			short |= needs[j].add(x, &x.left[j])
		}
		f.Fit = f.Fit || x.usable&^short != 0
	}
	return f
}

// add adds what is left on the nodes of a chunk. It returns which nodes have too little.
func (m *NeedMeasurement) add(x *chunk, left *[chunkNodes]int64) (short uint64) {
	most := m.Max
	for n, have := range left[:x.size] {
		if x.usable>>n&1 == 0 {
			continue
		}
		if most = max(most, have); have < m.Wanted {
			short |= 1 << n
			m.MaxShort = max(m.MaxShort, have)
		}
	}
	m.Max, m.Nodes = most, m.Nodes+int64(bits.OnesCount64(short))
	return short
}

// Nodes returns the number of nodes in the layout.
func (y Survey) Nodes() int { return len(y.layout.order) }

// CountUnusable counts the nodes that are down, and the nodes that are up but excluded by
// constraints of the shape. If present is set, constraints that hold only at present count too.
func (y Survey) CountUnusable(s int, present bool) (down, excluded int64) {
	b := y.layout
	b.Spend(len(b.order))
	constrained := b.shapes[s].Constrained
	for i, at := range b.order {
		if !b.problem.Up[at] {
			down++
		} else if constrained {
			if always, now := b.constraintsAllow(s, i); !always || present && !now {
				excluded++
			}
		}
	}
	return down, excluded
}

// CountConflicts counts the nodes that the requester could use for the shape
// if others held nothing there, in the view of the last attempt. otherHolder is the
// number of nodes that belong to another holder. inUse is the number of nodes
// on which others hold something although the request wants whole nodes.
func (y Survey) CountConflicts(s int) (otherHolder, inUse int64) {
	b := y.layout
	b.Spend(len(b.order))
	if b.problem.Exclusivities == nil {
		return 0, 0
	}
	for i, at := range b.order {
		if _, now := b.constraintsAllow(s, i); !b.problem.Up[at] || !now {
			continue
		}
		switch b.problem.conflict(b.view, at) {
		case OtherHolder:
			otherHolder++
		case InUse:
			inUse++
		case NoConflict:
		}
	}
	return otherHolder, inUse
}

// CouldHold reports whether a node could hold a slot of a shape if no job held anything. i is the index of
// the node in Problem.Order.
func (y Survey) CouldHold(s, i int) bool {
	b := y.layout
	b.Spend(b.fitSteps(s))
	_, now := b.constraintsAllow(s, i)
	return now && b.problem.Up[b.order[i]] && b.problem.roomInColumns(View{Empty: true}, b.order[i], &b.shapes[s], 1) > 0
}

// IsAlone reports whether a shape is the only one and has no limits. Then what fits
// on a node does not depend on what is placed on others.
func (y Survey) IsAlone(s int) bool {
	return len(y.layout.shapes) == 1 && len(y.layout.shapes[s].Limits) == 0
}

// RoomOn returns how many slots of a shape that is alone fit on the nodes at these positions, at most its
// minimum.
func (y Survey) RoomOn(s int, at []int32) int64 {
	part := y.layout.withNodes(at)
	part.start(ViewNow)
	return newChunk(part, s).count(part.shapes[s].Count.Min)
}

// RoomInClosest places slots in the domain that came closest, or anywhere if there is none. It places the minimum of
// every shape before the shape that failed, and then as many slots as fit of the shape that
// failed, up to its minimum. It returns how many slots of the shape that failed it placed.
func (y Survey) RoomInClosest(failed *Shortfall) int64 {
	part := y.closest(failed).layout
	part.start(ViewNow)
	for s := range failed.Shape {
		part.fill(s, part.shapes[s].Count.Min)
	}
	return part.fill(failed.Shape, part.shapes[failed.Shape].Count.Min)
}
