package solver

// roomFor returns how many slots of a shape fit on a node,
// at most want. The caller must charge the steps for it.
func (b *Layout) roomFor(s, i int, want int64) int64 {
	at := b.order[i]
	if !b.problem.isOpen(b.view, at) {
		return 0
	}
	shape, n := &b.shapes[s], int64(0)
	if len(b.shapes) > 1 || b.rowStamp[at] == b.stamp {
		// If there are several shapes, others will read the row too.
		n = roomInRow(b.row(i), shape, want)
	} else {
		n = b.problem.roomInColumns(b.view, at, shape, want)
	}
	for _, k := range shape.Limits {
		n = min(n, b.allowance(k, at))
	}
	if n == 0 || !b.view.allows(b.constraintsAllow(s, i)) {
		return 0
	}
	return n
}

// roomInRow returns how many slots of a shape fit in a row, at most want.
func roomInRow(row []int64, s *Shape, want int64) int64 {
	n := want
	for _, k := range s.NeedsInOrder {
		switch have, each := row[k], s.AmountPerSlot[k]; {
		case have < each:
			return 0
		case n > 1:
			n = min(n, have/each)
		}
	}
	return n
}

// roomInColumns is like roomInRow, for a node without a row.
func (p *Problem) roomInColumns(v View, at int32, s *Shape, want int64) int64 {
	n := want
	for _, k := range s.NeedsInOrder {
		switch have, each := p.Needs[k].amount(v, at), s.AmountPerSlot[k]; {
		case have < each:
			return 0
		case n > 1:
			n = min(n, have/each)
		}
	}
	return n
}

// put places n slots of a shape on a node. If n is negative, it takes -n slots back.
func (b *Layout) put(s, i int, n int64) {
	shape, row := &b.shapes[s], b.row(i)
	for _, k := range shape.NeedsInOrder {
		row[k] -= n * shape.AmountPerSlot[k]
	}
	for _, k := range shape.Limits {
		b.countInLimit(k, b.order[i], n)
	}
}

// fillChunk is the number of nodes for which fill charges the meter at once. passAfter is
// the number of nodes without room, one after the other, after which it passes over more. It is
// fillChunk nodes if there were none to pass over the last time.
const fillChunk, passAfter = 64, 4

// fill places up to want slots of a shape by first fit: node by node
// in order, on each as many as fit. It returns how many it placed.
func (b *Layout) fill(s int, want int64) int64 {
	if b.IsExhausted() {
		return 0
	}
	found, i, steps := int64(0), 0, b.fitSteps(s)
	without, most := 0, passAfter
	for i < len(b.order) && found < want {
		if without >= most {
			next := b.passOver(s, i)
			if without, most = 0, passAfter; next == i {
				most = fillChunk
			}
			i = next
		}
		end := min(len(b.order), i+fillChunk)
		if !b.Charge((end - i) * steps) {
			break
		}
		for ; i < end && found < want && without < most; i++ {
			n := b.roomFor(s, i, want-found)
			if without++; n > 0 {
				b.put(s, i, n)
				b.runs = append(b.runs, Run{s, i, n})
				found += n
				without = 0
			}
		}
		b.refund((end - i) * steps)
	}
	return found
}

// fitSteps returns the cost of one call of roomFor for the shape, in steps.
func (b *Layout) fitSteps(s int) int {
	shape := &b.shapes[s]
	return 1 + len(shape.NeedsInOrder) + len(shape.Limits)
}

// extend places more slots of each shape that has a range, in the order of the
// jobspec. It places as many as fit, rounded down to a number that the count accepts.
func (b *Layout) extend() {
	if len(b.levels) > 0 {
		b.topologySearch.extendTopology(b)
		return
	}
	total := int64(0)
	for _, s := range b.shapes {
		total += s.Count.Min
	}
	for i, s := range b.shapes {
		more := min(s.Count.Max-s.Count.Min, MaxSlots-total)
		more = b.fill(i, more)
		accepted := s.Count.Floor(s.Count.Min+more) - s.Count.Min
		b.removeLast(more - accepted)
		total += accepted
	}
}

// removeLast takes back the n slots that were placed last.
func (b *Layout) removeLast(n int64) {
	for n > 0 {
		last := &b.runs[len(b.runs)-1]
		part := min(n, last.Count)
		b.put(last.Shape, last.Node, -part)
		n -= part
		if last.Count -= part; last.Count == 0 {
			b.runs = b.runs[:len(b.runs)-1]
		}
	}
}

// totals returns how much of each need is left on all nodes that
// at least one shape may use. The sums saturate at math.MaxInt64.
func (b *Layout) totals() []int64 {
	sums := make([]int64, len(b.problem.Needs))
	for i, at := range b.order {
		for s := range b.shapes {
			if !b.Charge(1) {
				return sums
			}
			if !b.isUsable(s, i) {
				continue
			}
			b.Spend(len(sums) / needsPerStep)
			row := b.rowAt(at, len(sums))
			for k := range sums {
				if row != nil {
					sums[k] = SatAdd(sums[k], row[k])
				} else {
					sums[k] = SatAdd(sums[k], b.problem.Needs[k].amount(b.view, at))
				}
			}
			break
		}
	}
	return sums
}

// maxShare returns the dominant share of one slot: the largest fraction that
// the slot takes of any total. The totals of the shape's needs must not be 0.
func (s *Shape) maxShare(all []int64) float64 {
	most := 0.0
	for _, k := range s.NeedsInOrder {
		most = max(most, float64(s.AmountPerSlot[k])/float64(all[k]))
	}
	return most
}
