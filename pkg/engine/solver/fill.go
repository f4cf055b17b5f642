package solver

// roomFor returns how many slots of a shape a node has room for, at most want. Who calls it
// charges steps.
func (b *Layout) roomFor(s, i int, want int64) int64 {
	if !b.isUsable(s, i) {
		return 0
	}
	shape := &b.shapes[s]
	n := roomInRow(b.row(i), shape, want)
	for _, k := range shape.Limits {
		n = min(n, b.allowance(k, b.order[i]))
	}
	return n
}

// roomInRow returns how many slots fit into a row, at most want.
func roomInRow(row []int64, s *Shape, want int64) int64 {
	n := want
	for _, k := range s.With {
		switch have, each := row[k], s.Each[k]; {
		case have < each:
			return 0
		case n > 1:
			n = min(n, have/each)
		}
	}
	return n
}

// put lays n slots of a shape on a node, or with n below 0 takes them back.
func (b *Layout) put(s, i int, n int64) {
	shape, row := &b.shapes[s], b.row(i)
	for _, k := range shape.With {
		row[k] -= n * shape.Each[k]
	}
	for _, k := range shape.Limits {
		b.countInLimit(k, b.order[i], n)
	}
}

// fillChunk is for how many nodes at once steps are charged.
const fillChunk = 64

// fill lays out slots of a shape, node by node and on each as many as fit, until
// there are as many as wanted. It returns how many there are.
func (b *Layout) fill(s int, want int64) int64 {
	if b.IsExhausted() {
		return 0
	}
	found, i, steps := int64(0), 0, b.fitSteps(s)
	for i < len(b.order) && found < want {
		end := min(len(b.order), i+fillChunk)
		if !b.Charge((end - i) * steps) {
			break
		}
		for ; i < end && found < want; i++ {
			if n := b.roomFor(s, i, want-found); n > 0 {
				b.put(s, i, n)
				b.runs = append(b.runs, Run{s, i, n})
				found += n
			}
		}
		b.refund((end - i) * steps)
	}
	return found
}

// fitSteps is what it counts to look whether a slot of a shape fits on a node.
func (b *Layout) fitSteps(s int) int {
	shape := &b.shapes[s]
	return 1 + len(shape.With) + len(shape.Limits)
}

// extend lays out more slots of every shape with a range, in the order of the
// jobspec, as many as fit and its count accepts.
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

// removeLast takes back the n slots laid out last.
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

// totals returns how much there is of each need on the nodes that some shape
// may use; past an int64 it stays at its largest.
func (b *Layout) totals() []int64 {
	sums := make([]int64, len(b.problem.Needs))
	for i := range b.order {
		for s := range b.shapes {
			if !b.Charge(1) {
				return sums
			}
			if !b.isUsable(s, i) {
				continue
			}
			b.Spend(len(sums) / needsPerStep)
			for k, have := range b.row(i) {
				sums[k] = SatAdd(sums[k], have)
			}
			break
		}
	}
	return sums
}

// maxShare returns the largest part that one slot of a shape takes of all there
// is, which must be something of each need.
func (s *Shape) maxShare(all []int64) float64 {
	most := 0.0
	for _, k := range s.With {
		most = max(most, float64(s.Each[k])/float64(all[k]))
	}
	return most
}
