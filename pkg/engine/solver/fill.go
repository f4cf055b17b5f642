package solver

// fits returns how many slots of a shape a node has room for, at most want. Who calls it
// charges steps.
func (b *Layout) fits(s, i int, want int64) int64 {
	if !b.usable(s, i) {
		return 0
	}
	shape := &b.asked[s]
	n := room(b.row(i), shape, want)
	for _, k := range shape.Limits {
		n = min(n, b.allowed(k, b.order[i]))
	}
	return n
}

// room returns how many slots fit into a row, at most want.
func room(row []int64, s *Shape, want int64) int64 {
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

// take lays n slots of a shape on a node, or with n below 0 takes them back.
func (b *Layout) take(s, i int, n int64) {
	shape, row := &b.asked[s], b.row(i)
	for _, k := range shape.With {
		row[k] -= n * shape.Each[k]
	}
	for _, k := range shape.Limits {
		b.spend(k, b.order[i], n)
	}
}

// laidAtOnce is for how many nodes at once steps are charged.
const laidAtOnce = 64

// lay lays out slots of a shape, node by node and on each as many as fit, until
// there are as many as wanted. It returns how many there are.
func (b *Layout) lay(s int, want int64) int64 {
	if b.Spent() {
		return 0
	}
	found, i, steps := int64(0), 0, b.steps(s)
	for i < len(b.order) && found < want {
		end := min(len(b.order), i+laidAtOnce)
		if !b.Charge((end - i) * steps) {
			break
		}
		for ; i < end && found < want; i++ {
			if n := b.fits(s, i, want-found); n > 0 {
				b.take(s, i, n)
				b.runs = append(b.runs, Run{s, i, n})
				found += n
			}
		}
		b.giveBack((end - i) * steps)
	}
	return found
}

// steps is what it counts to look whether a slot of a shape fits on a node.
func (b *Layout) steps(s int) int {
	shape := &b.asked[s]
	return 1 + len(shape.With) + len(shape.Limits)
}

// extend lays out more slots of every shape with a range, in the order of the
// jobspec, as many as fit and its count accepts.
func (b *Layout) extend() {
	if len(b.levels) > 0 {
		b.quest.gatherMore(b)
		return
	}
	total := int64(0)
	for _, s := range b.asked {
		total += s.Count.Min
	}
	for i, s := range b.asked {
		more := min(s.Count.Max-s.Count.Min, MaxSlots-total)
		more = b.lay(i, more)
		accepted := s.Count.Floor(s.Count.Min+more) - s.Count.Min
		b.shorten(more - accepted)
		total += accepted
	}
}

// shorten takes back the n slots laid out last.
func (b *Layout) shorten(n int64) {
	for n > 0 {
		last := &b.runs[len(b.runs)-1]
		part := min(n, last.Count)
		b.take(last.Shape, last.Node, -part)
		n -= part
		if last.Count -= part; last.Count == 0 {
			b.runs = b.runs[:len(b.runs)-1]
		}
	}
}

// capacity returns how much there is of each need on the nodes that some shape
// may use; past an int64 it stays at its largest.
func (b *Layout) capacity() []int64 {
	sums := make([]int64, len(b.problem.Needs))
	for i := range b.order {
		for s := range b.asked {
			if !b.Charge(1) {
				return sums
			}
			if !b.usable(s, i) {
				continue
			}
			b.Owe(len(sums) / needsPerStep)
			for k, have := range b.row(i) {
				sums[k] = Plus(sums[k], have)
			}
			break
		}
	}
	return sums
}

// share returns the largest part that one slot of a shape takes of all there
// is, which must be something of each need.
func (s *Shape) share(all []int64) float64 {
	most := 0.0
	for _, k := range s.With {
		most = max(most, float64(s.Each[k])/float64(all[k]))
	}
	return most
}
