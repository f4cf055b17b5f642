package solver

import "math/bits"

// chunkNodes is the maximum number of nodes in a chunk: the bits of a mask.
const chunkNodes = 64

// A chunk has what is left for one shape on some consecutive nodes. To read the
// amounts need by need takes much less time than to read them node by node.
type chunk struct {
	*Layout
	shape int
	size  int
	// usable has the nodes that the shape may use.
	usable uint64
	// left has what is left on the usable nodes, by Shape.NeedsInOrder.
	left [][chunkNodes]int64
	// room is how many slots fit on each usable node. It is set by fit.
	room [chunkNodes]int64
}

// passChunk is the number of nodes that passOver passes over at once.
const passChunk = 1 << 12

// passOver returns the index of the first node, from i on, that may have room for a slot
// of a shape. It returns len(b.order) if there is none or if there are too few steps left.
func (b *Layout) passOver(s, i int) int {
	if b.room == nil {
		return i
	}
	for i < len(b.order) {
		end := min(len(b.order), i+passChunk)
		next, steps := b.room.Next(b.view, &b.shapes[s], i, end)
		if b.Spend(steps); b.IsExhausted() {
			return len(b.order)
		}
		if i = next; i < end {
			break
		}
	}
	return i
}

// newChunk returns an empty chunk for a shape.
func newChunk(b *Layout, s int) *chunk {
	return &chunk{Layout: b, shape: s, left: make([][chunkNodes]int64, len(b.shapes[s].NeedsInOrder))}
}

// read reads the nodes with these indexes. The caller must charge the steps for it.
func (x *chunk) read(i, end int) {
	nodes := x.order[i:end]
	x.size, x.usable, x.room = len(nodes), 0, [chunkNodes]int64{}
	for n, at := range nodes {
		if x.problem.isOpen(x.view, at) && x.view.allows(x.constraintsAllow(x.shape, i+n)) {
			x.usable |= 1 << n
		}
	}
	for j, k := range x.shapes[x.shape].NeedsInOrder {
		x.readNeed(k, nodes, &x.left[j])
	}
}

// readNeed reads what is left of a need on some nodes.
func (x *chunk) readNeed(k int, nodes []int32, left *[chunkNodes]int64) {
	need := &x.problem.Needs[k]
	if len(need.Columns) == 1 {
		amounts := need.Columns[0].in(x.view)
		for n, at := range nodes {
			left[n] = amounts[at]
		}
	} else {
		for n, at := range nodes {
			left[n] = need.amount(x.view, at)
		}
	}
	if x.rowCount == 0 {
		return
	}
	for n, at := range nodes {
		if row := x.rowAt(at, len(x.problem.Needs)); row != nil {
			left[n] = row[k]
		}
	}
}

// fit sets room to the slots that first fit places on the nodes, and
// takes them from what is left. It returns their number, at most want.
func (x *chunk) fit(want int64) int64 {
	shape, found := &x.shapes[x.shape], int64(0)
	for n := range x.size {
		room := want - found
		if x.usable>>n&1 == 0 {
			continue
		}
		for j, k := range shape.NeedsInOrder {
			have, each := x.left[j][n], shape.AmountPerSlot[k]
			// A multiplication takes much less time than a division.
			if high, all := bits.Mul64(uint64(room), uint64(each)); high > 0 || all > uint64(have) {
				room = have / each
			}
		}
		x.room[n] = room
		found += room
	}
	for j, k := range shape.NeedsInOrder {
		each := shape.AmountPerSlot[k]
		for n := range x.size {
			x.left[j][n] -= x.room[n] * each
		}
	}
	return found
}

// count returns how many slots first fit places on all nodes, at most
// want. It places none. The shape must have no limits.
func (x *chunk) count(want int64) int64 {
	found, i, steps, none := int64(0), 0, x.fitSteps(x.shape), false
	for i < len(x.order) && found < want && !x.IsExhausted() {
		if none {
			i = x.passOver(x.shape, i)
		}
		end := min(len(x.order), i+chunkNodes)
		if !x.Charge((end - i) * steps) {
			break
		}
		x.read(i, end)
		n := x.fit(want - found)
		found, i, none = found+n, end, n == 0
	}
	return found
}
