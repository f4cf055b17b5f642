package planner

import (
	"cmp"
	"slices"
)

// wide is how many steps or parts a node has at the most.
const wide = 64

// A step is a time at which spans begin or end.
type step struct {
	at int64
	// change is by how much the sum rises there.
	change int64
	// edges counts the spans that begin or end there.
	edges int
}

// A node is a piece of a plan, in the order of time: a leaf has steps, any other
// node has parts. All leaves are equally deep.
type node struct {
	steps []step
	parts []part
}

// A part is what a node knows of one below it, which is never empty.
type part struct {
	node *node
	from int64 // the time of its first step
	// sum is by how much the sum rises over all its steps; high and low are the
	// most and the least by which it has risen after any of them.
	sum, high, low int64
}

// partOf looks at a node anew.
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

// size counts the steps or parts of the node.
func (n *node) size() int { return len(n.steps) + len(n.parts) }

// mark puts edges on a time below the node, or takes them off. What no longer has
// room in the node is returned as one more, to stand right of it.
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

// of returns the index of the part in whose time t is.
func (n *node) of(t int64) int {
	i, found := slices.BinarySearchFunc(n.parts, t, func(p part, t int64) int { return cmp.Compare(p.from, t) })
	if found || i == 0 {
		return i
	}
	return i - 1
}

// settle brings a part up to date after it changed: one that is empty goes, one
// that is small is put together with the next.
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

// markStep does mark in a leaf.
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

// cut returns the first of s, and lets go of what the others point to.
func cut[T any](s []T, first int) []T {
	clear(s[first:])
	return s[:first]
}

// shrunk returns s in less memory if most of what it has is unused.
func shrunk[T any](s []T) []T {
	if cap(s) < 8 || len(s) > cap(s)/4 {
		return s
	}
	return append(make([]T, 0, 2*len(s)), s...)
}
