package solver

import (
	"encoding/binary"
	"slices"
)

const (
	// searchBudget bounds the first search of a match by counts of slots that are
	// looked at. A search may use half of what is left for all of them, and
	// leastBudget at the least.
	searchBudget = 3 << 20
	leastBudget  = 1 << 15
	// nodeSteps is how many such steps it counts to look at a node on the layout.
	nodeSteps = 1 << 4
	// classSteps is how many steps it counts to find the class of a node for one shape.
	classSteps = 1 << 4
)

// A search goes through all ways to lay out the shapes, depth first: shape by
// shape, node by node, on each as many slots as fit and then ever fewer. It is for
// shapes with limits, which a packing does not see.
type search struct {
	*Layout
	shapes []int
	// failed are the states between two shapes from which there was no way.
	failed map[string]struct{}
	key    []byte // memory for one state
	// ahead is, by position in shapes and by node, how many slots fit there and
	// on the nodes after it, before any of the shape is laid out.
	ahead  [][]int64
	budget int
	// keep and sortings are by position in shapes, and made when they are first asked for.
	keep     [][]bool
	sortings []*sorting
}

// searchAll looks for a way to lay out the least of every shape, and returns what is
// left of the budget. It is impossible if the search has seen all there are.
func searchAll(b *Layout, v View, order []int, budget int) (Outcome, int) {
	b.start(v)
	s := &search{Layout: b, shapes: order, budget: budget / nodeSteps, failed: map[string]struct{}{}}
	s.ahead, s.keep, s.sortings = make([][]int64, len(order)), make([][]bool, len(order)), make([]*sorting, len(order))
	o := Impossible
	switch {
	case s.shape(0):
		o = Placed
	case s.budget < 0:
		o = Unknown
	}
	return o, max(0, s.budget*nodeSteps)
}

// pay counts how many nodes are looked at.
func (s *search) pay(n int) {
	s.Owe(n * nodeSteps)
	if s.budget -= n; s.Spent() {
		s.budget = -1
	}
}

// shape lays out the shapes from position k on.
func (s *search) shape(k int) bool {
	if k == len(s.shapes) {
		return true
	}
	at := s.shapes[k]
	least := s.asked[at].Count.Min
	if !s.Charge(len(s.order) * s.steps(at)) {
		s.budget = -1
		return false
	}
	if s.ahead[k] == nil {
		s.ahead[k] = make([]int64, len(s.order)+1)
	}
	ahead := s.ahead[k]
	for i := len(s.order) - 1; i >= 0; i-- {
		ahead[i] = Plus(ahead[i+1], s.fits(at, i, least))
	}
	if s.pay(len(s.order)); s.budget < 0 || ahead[0] < least {
		return false
	}
	state := s.state(k)
	if _, been := s.failed[state]; been || s.budget < 0 {
		return false
	}
	if s.rest(k, 0, least, nil) {
		return true
	}
	if s.budget >= 0 {
		s.failed[state] = struct{}{}
	}
	return false
}

// state is all that the shapes from position k on depend on: what is left on each node,
// and what their limits still allow.
func (s *search) state(k int) string {
	key := binary.AppendUvarint(s.key[:0], uint64(k))
	s.Owe(len(s.order) * len(s.problem.Needs) / needsPerStep)
	for i := range s.order {
		for _, have := range s.row(i) {
			key = binary.AppendVarint(key, have)
		}
	}
	cells := 0
	for l, kept := range s.heeded(k) {
		if !kept {
			continue
		}
		cells += int(s.bounds[l].Cells)
		for c := range s.bounds[l].Cells {
			key = binary.AppendVarint(key, s.allowedIn(l, c))
		}
	}
	s.pay(len(s.order) + (cells+nodeSteps-1)/nodeSteps)
	s.key = key
	return string(key)
}

// rest lays out want more slots of the shape at position k, on nodes from i on.
// last is what was laid on the node before that was looked at.
func (s *search) rest(k, i int, want int64, last *Run) bool {
	if want == 0 {
		return s.shape(k + 1)
	}
	at := s.shapes[k]
	for ; i < len(s.order) && s.ahead[k][i] >= want; i++ {
		if s.pay(1); s.budget < 0 {
			return false
		}
		s.Owe(s.steps(at))
		most := s.fits(at, i, want)
		if most == 0 {
			continue
		}
		if last != nil && s.alike(k, i, last) {
			// The two could change places, so only one order is tried.
			most = min(most, last.Count)
		}
		here := Run{at, i, 0}
		for n := most; n >= 0 && n >= want-s.ahead[k][i+1]; n-- {
			here.Count = n
			if s.with(k, here, want) {
				return true
			}
			if s.budget < 0 {
				return false
			}
		}
		return false
	}
	return false
}

// with lays a run and then the rest, or leaves things as they were.
func (s *search) with(k int, r Run, want int64) bool {
	if s.pay(1); s.budget < 0 {
		return false
	}
	laid := len(s.runs)
	s.take(r.Shape, r.Node, r.Count)
	if r.Count > 0 {
		s.runs = append(s.runs, r)
	}
	if s.rest(k, r.Node+1, want-r.Count, &r) {
		return true
	}
	s.runs = s.runs[:laid]
	s.take(r.Shape, r.Node, -r.Count)
	return false
}

// alike says whether a node is in all that is still to come what the node of
// last was before the run was laid on it.
func (s *search) alike(k, i int, last *Run) bool {
	each := s.asked[last.Shape].Each
	mine, its := s.row(i), s.row(last.Node)
	s.Owe(1 + len(mine)/needsPerStep)
	for t := range mine {
		if mine[t] != its[t]+last.Count*each[t] {
			return false
		}
	}
	return s.class(k, i) == s.class(k, last.Node)
}

// heeded says of each limit whether shapes from position k on keep it.
func (s *search) heeded(k int) []bool {
	if s.keep[k] == nil {
		limits := s.asked[s.shapes[k]].Limits
		s.Owe(len(s.bounds)/nodeSteps + len(limits))
		if k+1 < len(s.shapes) {
			s.keep[k] = slices.Clone(s.heeded(k + 1))
		} else {
			s.keep[k] = make([]bool, len(s.bounds))
		}
		for _, l := range limits {
			s.keep[k][l] = true
		}
	}
	return s.keep[k]
}

// A sorting sorts the nodes by what they are to the shapes from a position on.
type sorting struct {
	// class is by node what it is, 0 where that is not known yet, and number by what makes it.
	class  []int32
	number map[string]int32
	// limits are those that no later shape keeps.
	limits []int
}

// class says what a node is to the shapes from position k on: which may stand there, and in
// which cells of their limits. Nodes that are the same to them are of one class.
func (s *search) class(k, i int) int32 {
	if k == len(s.shapes) {
		return 0
	}
	x := s.sorting(k)
	if x.class[i] > 0 {
		return x.class[i]
	}
	s.Owe(classSteps + len(x.limits))
	key := binary.AppendUvarint(nil, uint64(s.class(k+1, i)))
	if s.usable(s.shapes[k], i) {
		key = append(key, 1)
	} else {
		key = append(key, 0)
	}
	for _, l := range x.limits {
		key = binary.AppendVarint(key, int64(s.bounds[l].Of[s.order[i]]))
	}
	n, known := x.number[string(key)]
	if !known {
		n = int32(len(x.number)) + 1
		x.number[string(key)] = n
	}
	x.class[i] = n
	return n
}

// sorting returns that of a position.
func (s *search) sorting(k int) *sorting {
	if x := s.sortings[k]; x != nil {
		return x
	}
	x := &sorting{class: make([]int32, len(s.order)), number: make(map[string]int32)}
	s.Owe(len(s.order) / nodeSteps)
	var later []bool
	if k+1 < len(s.shapes) {
		later = s.heeded(k + 1)
	}
	for _, l := range s.asked[s.shapes[k]].Limits {
		if later == nil || !later[l] {
			x.limits = append(x.limits, l)
		}
	}
	s.sortings[k] = x
	return x
}
