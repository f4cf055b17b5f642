package solver

import (
	"encoding/binary"
	"slices"
)

const (
	// searchBudget bounds the first search of a match by counts of slots that are
	// looked at. A search may use half of what is left for all of them, and
	// minBudget at the least.
	searchBudget = 3 << 20
	minBudget    = 1 << 15
	// nodeSteps is how many such steps it counts to look at a node on the layout.
	nodeSteps = 1 << 4
	// classSteps is how many steps it counts to find the class of a node for one shape.
	classSteps = 1 << 4
)

// A search goes through all ways to lay out the shapes, depth first: shape by
// shape, node by node, on each as many slots as fit and then ever fewer. It is for
// shapes with limits, which a packing does not see.
type exhaustiveSearch struct {
	*Layout
	shapeOrder []int
	// failed are the states between two shapes from which there was no way.
	failed map[string]struct{}
	key    []byte // memory for one state
	// roomAhead is, by position in shapes and by node, how many slots fit there and
	// on the nodes after it, before any of the shape is laid out.
	roomAhead [][]int64
	budget    int
	// keptLimits and sortings are by position in shapes, and made when they are first asked for.
	keptLimits  [][]bool
	classifiers []*classifier
}

// searchExhaustively looks for a way to lay out the least of every shape, and returns what is
// left of the budget. It is impossible if the search has seen all there are.
func searchExhaustively(b *Layout, v View, order []int, budget int) (Outcome, int) {
	b.start(v)
	s := &exhaustiveSearch{Layout: b, shapeOrder: order, budget: budget / nodeSteps, failed: map[string]struct{}{}}
	s.roomAhead, s.keptLimits, s.classifiers = make([][]int64, len(order)), make([][]bool, len(order)), make([]*classifier, len(order))
	o := Impossible
	switch {
	case s.placeShape(0):
		o = Placed
	case s.budget < 0:
		o = Unknown
	}
	return o, max(0, s.budget*nodeSteps)
}

// spendBudget counts how many nodes are looked at.
func (s *exhaustiveSearch) spendBudget(n int) {
	s.Spend(n * nodeSteps)
	if s.budget -= n; s.IsExhausted() {
		s.budget = -1
	}
}

// placeShape lays out the shapes from position k on.
func (s *exhaustiveSearch) placeShape(k int) bool {
	if k == len(s.shapeOrder) {
		return true
	}
	at := s.shapeOrder[k]
	least := s.shapes[at].Count.Min
	if !s.Charge(len(s.order) * s.fitSteps(at)) {
		s.budget = -1
		return false
	}
	if s.roomAhead[k] == nil {
		s.roomAhead[k] = make([]int64, len(s.order)+1)
	}
	ahead := s.roomAhead[k]
	for i := len(s.order) - 1; i >= 0; i-- {
		ahead[i] = SatAdd(ahead[i+1], s.roomFor(at, i, least))
	}
	if s.spendBudget(len(s.order)); s.budget < 0 || ahead[0] < least {
		return false
	}
	state := s.state(k)
	if _, been := s.failed[state]; been || s.budget < 0 {
		return false
	}
	if s.placeRest(k, 0, least, nil) {
		return true
	}
	if s.budget >= 0 {
		s.failed[state] = struct{}{}
	}
	return false
}

// state is all that the shapes from position k on depend on: what is left on each node,
// and what their limits still allow.
func (s *exhaustiveSearch) state(k int) string {
	key := binary.AppendUvarint(s.key[:0], uint64(k))
	s.Spend(len(s.order) * len(s.problem.Needs) / needsPerStep)
	for i := range s.order {
		for _, have := range s.row(i) {
			key = binary.AppendVarint(key, have)
		}
	}
	cells := 0
	for l, kept := range s.keptLimitsFrom(k) {
		if !kept {
			continue
		}
		cells += int(s.limits[l].Cells)
		for c := range s.limits[l].Cells {
			key = binary.AppendVarint(key, s.allowanceIn(l, c))
		}
	}
	s.spendBudget(len(s.order) + (cells+nodeSteps-1)/nodeSteps)
	s.key = key
	return string(key)
}

// placeRest lays out want more slots of the shape at position k, on nodes from i on.
// last is what was laid on the node before that was looked at.
func (s *exhaustiveSearch) placeRest(k, i int, want int64, last *Run) bool {
	if want == 0 {
		return s.placeShape(k + 1)
	}
	at := s.shapeOrder[k]
	for ; i < len(s.order) && s.roomAhead[k][i] >= want; i++ {
		if s.spendBudget(1); s.budget < 0 {
			return false
		}
		s.Spend(s.fitSteps(at))
		most := s.roomFor(at, i, want)
		if most == 0 {
			continue
		}
		if last != nil && s.isInterchangeable(k, i, last) {
			// The two could change places, so only one order is tried.
			most = min(most, last.Count)
		}
		here := Run{at, i, 0}
		for n := most; n >= 0 && n >= want-s.roomAhead[k][i+1]; n-- {
			here.Count = n
			if s.tryRun(k, here, want) {
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

// tryRun lays a run and then the rest, or leaves things as they were.
func (s *exhaustiveSearch) tryRun(k int, r Run, want int64) bool {
	if s.spendBudget(1); s.budget < 0 {
		return false
	}
	laid := len(s.runs)
	s.put(r.Shape, r.Node, r.Count)
	if r.Count > 0 {
		s.runs = append(s.runs, r)
	}
	if s.placeRest(k, r.Node+1, want-r.Count, &r) {
		return true
	}
	s.runs = s.runs[:laid]
	s.put(r.Shape, r.Node, -r.Count)
	return false
}

// isInterchangeable says whether a node is in all that is still to come what the node of
// last was before the run was laid on it.
func (s *exhaustiveSearch) isInterchangeable(k, i int, last *Run) bool {
	each := s.shapes[last.Shape].Each
	mine, its := s.row(i), s.row(last.Node)
	s.Spend(1 + len(mine)/needsPerStep)
	for t := range mine {
		if mine[t] != its[t]+last.Count*each[t] {
			return false
		}
	}
	return s.class(k, i) == s.class(k, last.Node)
}

// keptLimitsFrom says of each limit whether shapes from position k on keep it.
func (s *exhaustiveSearch) keptLimitsFrom(k int) []bool {
	if s.keptLimits[k] == nil {
		limits := s.shapes[s.shapeOrder[k]].Limits
		s.Spend(len(s.limits)/nodeSteps + len(limits))
		if k+1 < len(s.shapeOrder) {
			s.keptLimits[k] = slices.Clone(s.keptLimitsFrom(k + 1))
		} else {
			s.keptLimits[k] = make([]bool, len(s.limits))
		}
		for _, l := range limits {
			s.keptLimits[k][l] = true
		}
	}
	return s.keptLimits[k]
}

// A sorting sorts the nodes by what they are to the shapes from a position on.
type classifier struct {
	// class is by node what it is, 0 where that is not known yet, and number by what makes it.
	class  []int32
	number map[string]int32
	// limits are those that no later shape keeps.
	limits []int
}

// class says what a node is to the shapes from position k on: which may stand there, and in
// which cells of their limits. Nodes that are the same to them are of one class.
func (s *exhaustiveSearch) class(k, i int) int32 {
	if k == len(s.shapeOrder) {
		return 0
	}
	x := s.classifier(k)
	if x.class[i] > 0 {
		return x.class[i]
	}
	s.Spend(classSteps + len(x.limits))
	key := binary.AppendUvarint(nil, uint64(s.class(k+1, i)))
	if s.isUsable(s.shapeOrder[k], i) {
		key = append(key, 1)
	} else {
		key = append(key, 0)
	}
	for _, l := range x.limits {
		key = binary.AppendVarint(key, int64(s.limits[l].CellOf[s.order[i]]))
	}
	n, known := x.number[string(key)]
	if !known {
		n = int32(len(x.number)) + 1
		x.number[string(key)] = n
	}
	x.class[i] = n
	return n
}

// classifier returns that of a position.
func (s *exhaustiveSearch) classifier(k int) *classifier {
	if x := s.classifiers[k]; x != nil {
		return x
	}
	x := &classifier{class: make([]int32, len(s.order)), number: make(map[string]int32)}
	s.Spend(len(s.order) / nodeSteps)
	var later []bool
	if k+1 < len(s.shapeOrder) {
		later = s.keptLimitsFrom(k + 1)
	}
	for _, l := range s.shapes[s.shapeOrder[k]].Limits {
		if later == nil || !later[l] {
			x.limits = append(x.limits, l)
		}
	}
	s.classifiers[k] = x
	return x
}
