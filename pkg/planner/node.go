package planner

import (
	"cmp"
	"slices"
)

// wide is the largest number of steps or parts of a node.
const wide = 64

// A step is a time at which bookings begin or end.
type step struct {
	at int64
	// change is by how much the sum rises at this time.
	change int64
	// edges is the number of bookings that begin or end at this time.
	edges int
}

// A node is a piece of a plan, in the order of time. A leaf has steps,
// any other node has parts. Invariant: all leaves have the same depth.
type node struct {
	steps []step
	parts []part
}

// A part is a summary of one node below another. Invariant: the node below is not empty.
type part struct {
	node *node
	from int64 // the time of its first step
	// sum is by how much the sum rises over all steps of the node. high
	// is the largest rise after any of the steps, and low the smallest.
	sum, high, low int64
}

// partOf computes the summary of a node.
func partOf(n *node) part {
	if len(n.parts) == 0 {
		p := part{node: n, from: n.steps[0].at, high: n.steps[0].change, low: n.steps[0].change}
		for i := range n.steps {
			p.sum += n.steps[i].change
			p.high, p.low = max(p.high, p.sum), min(p.low, p.sum)
		}
		return p
	}
	p := n.parts[0]
	p.node = n
	for i := range n.parts[1:] {
		q := &n.parts[i+1]
		p.high, p.low = max(p.high, p.sum+q.high), min(p.low, p.sum+q.low)
		p.sum += q.sum
	}
	return p
}

// size returns the number of steps or parts of the node.
func (n *node) size() int { return len(n.steps) + len(n.parts) }

// mark adds or takes off edges at a time below the node. If the node gets too
// wide, it splits: mark returns the right half as a new node, and nil otherwise.
func (n *node) mark(at, change int64, edges int) *node {
	if len(n.parts) == 0 {
		return n.markStep(at, change, edges)
	}
	i := n.of(at)
	right := n.parts[i].node.mark(at, change, edges)
	n.settle(i)
	if right != nil {
		n.parts = slices.Insert(n.parts, i+1, partOf(right))
	}
	if len(n.parts) <= wide {
		return nil
	}
	right = &node{parts: slices.Clone(n.parts[wide/2:])}
	n.parts = cut(n.parts, wide/2)
	return right
}

// of returns the index of the part that covers t.
func (n *node) of(t int64) int {
	i, found := slices.BinarySearchFunc(n.parts, t, func(p part, t int64) int { return cmp.Compare(p.from, t) })
	if found || i == 0 {
		return i
	}
	return i - 1
}

// settle updates a part after its node changed. It removes
// an empty node, and merges a small one with its neighbour.
func (n *node) settle(i int) {
	size := n.parts[i].node.size()
	if size == 0 {
		n.parts = shrunk(slices.Delete(n.parts, i, i+1))
		return
	}
	n.parts[i] = partOf(n.parts[i].node)
	if size >= wide/4 || len(n.parts) == 1 {
		return
	}
	i = min(i, len(n.parts)-2)
	left, right := n.parts[i].node, n.parts[i+1].node
	if left.size()+right.size() > wide*3/4 {
		return
	}
	left.steps = append(left.steps, right.steps...)
	left.parts = append(left.parts, right.parts...)
	n.parts[i] = partOf(left)
	n.parts = shrunk(slices.Delete(n.parts, i+1, i+2))
}

// markStep is mark for a leaf.
func (n *node) markStep(at, change int64, edges int) *node {
	i, found := slices.BinarySearchFunc(n.steps, at, func(s step, t int64) int { return cmp.Compare(s.at, t) })
	if found {
		s := &n.steps[i]
		s.change += change
		s.edges += edges
		switch {
		case s.edges > 0:
		case s.edges == 0 && s.change == 0:
			n.steps = shrunk(slices.Delete(n.steps, i, i+1))
		default:
			panic("planner: a span was removed that was added otherwise")
		}
		return nil
	}
	if edges < 0 {
		panic("planner: a span was removed that was not added")
	}
	n.steps = slices.Insert(n.steps, i, step{at, change, edges})
	if len(n.steps) <= wide {
		return nil
	}
	right := &node{steps: slices.Clone(n.steps[wide/2:])}
	n.steps = cut(n.steps, wide/2)
	return right
}

// cut returns the first elements of s. It clears the
// others, so that what they point to can be collected.
func cut[T any](s []T, first int) []T {
	clear(s[first:])
	return s[:first]
}

// shrunk returns s in less memory if most of its capacity is unused.
func shrunk[T any](s []T) []T {
	if cap(s) < 8 || len(s) > cap(s)/4 {
		return s
	}
	return append(make([]T, 0, 2*len(s)), s...)
}
