package solver

import (
	"encoding/binary"
	"slices"
)

const (
	// searchBudget is the budget of the first search of a match, in steps of the
	// search: counts of slots that are read. All searches of a match share twice
	// as much. Each of them may use half of what is left, and at least minBudget.
	searchBudget = 3 << 20
	minBudget    = 1 << 15
	// nodeSteps is the cost of looking at one node of the layout, in steps of the search.
	nodeSteps = 1 << 4
	// classSteps is the cost of computing the class of a node for one shape, in steps.
	classSteps = 1 << 4
)

// An exhaustiveSearch enumerates all placements depth first: shape by shape, node
// by node. On each node it tries as many slots as fit, then one fewer each time.
// It is for problems with limits, because packing ignores limits across nodes.
type exhaustiveSearch struct {
	*Layout
	shapeOrder []int
	// deadStates has the states from which no placement
	// exists. A state is taken before a shape is placed.
	deadStates map[string]struct{}
	key        []byte // buffer for one state
	// roomAhead[k][i] is an upper bound on the slots of shapeOrder[k] that fit on the
	// nodes from i on. It is what fitted there before any slot of that shape was placed.
	roomAhead [][]int64
	// nodeBudget is the number of nodes that may still be looked at.
	nodeBudget int
	// remainingLimits[k][l] is true if any of the shapes from position
	// k on is subject to limit l. It is computed on first use.
	remainingLimits [][]bool
	// classifiers[k] is the classifier for the shapes from position k on. It is made on first use.
	classifiers []*classifier
}

// searchExhaustively searches for a placement of the minimum counts. It
// returns Impossible if it saw all placements, and the budget that is left.
func searchExhaustively(b *Layout, v View, order []int, budget int) (Outcome, int) {
	b.start(v)
	s := &exhaustiveSearch{Layout: b, shapeOrder: order, nodeBudget: budget / nodeSteps, deadStates: map[string]struct{}{}}
	s.roomAhead, s.remainingLimits, s.classifiers = make([][]int64, len(order)), make([][]bool, len(order)), make([]*classifier, len(order))
	o := Impossible
	switch {
	case s.placeShape(0):
		o = Placed
	case s.nodeBudget < 0:
		o = Unknown
	}
	return o, max(0, s.nodeBudget*nodeSteps)
}

// spendBudget takes the cost of looking at n nodes from the meter and from the search's budget.
func (s *exhaustiveSearch) spendBudget(n int) {
	s.Spend(n * nodeSteps)
	if s.nodeBudget -= n; s.IsExhausted() {
		s.nodeBudget = -1
	}
}

// placeShape places the shapes from position k on. It returns false if it finds no placement.
func (s *exhaustiveSearch) placeShape(k int) bool {
	if k == len(s.shapeOrder) {
		return true
	}
	at := s.shapeOrder[k]
	least := s.shapes[at].Count.Min
	if !s.Charge(len(s.order) * s.fitSteps(at)) {
		s.nodeBudget = -1
		return false
	}
	if s.roomAhead[k] == nil {
		s.roomAhead[k] = make([]int64, len(s.order)+1)
	}
	ahead := s.roomAhead[k]
	for i := len(s.order) - 1; i >= 0; i-- {
		ahead[i] = SatAdd(ahead[i+1], s.roomFor(at, i, least))
	}
	if s.spendBudget(len(s.order)); s.nodeBudget < 0 || ahead[0] < least {
		return false
	}
	state := s.state(k)
	if _, been := s.deadStates[state]; been || s.nodeBudget < 0 {
		return false
	}
	if s.placeRest(k, 0, least, nil) {
		return true
	}
	if s.nodeBudget >= 0 {
		s.deadStates[state] = struct{}{}
	}
	return false
}

// state encodes all that the placement of the shapes from position k on depends
// on: what is left on each node, and what the limits of these shapes still allow.
func (s *exhaustiveSearch) state(k int) string {
	key := binary.AppendUvarint(s.key[:0], uint64(k))
	s.Spend(len(s.order) * len(s.problem.Needs) / needsPerStep)
	for i := range s.order {
		for _, have := range s.row(i) {
			key = binary.AppendVarint(key, have)
		}
	}
	cells := 0
	for l, kept := range s.remainingLimitsFrom(k) {
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

// placeRest places want more slots of the shape at position k on the nodes from
// i on, and then the shapes after it. last is the run on the previous node with
// room for the shape, possibly of 0 slots. It is nil if there was no such node.
func (s *exhaustiveSearch) placeRest(k, i int, want int64, last *Run) bool {
	if want == 0 {
		return s.placeShape(k + 1)
	}
	at := s.shapeOrder[k]
	for ; i < len(s.order) && s.roomAhead[k][i] >= want; i++ {
		if s.spendBudget(1); s.nodeBudget < 0 {
			return false
		}
		s.Spend(s.fitSteps(at))
		most := s.roomFor(at, i, want)
		if most == 0 {
			continue
		}
		if last != nil && s.isInterchangeable(k, i, last) {
			// The two nodes are interchangeable. To try each placement in one
			// order only, the later node gets no more slots than the earlier one.
			most = min(most, last.Count)
		}
		here := Run{at, i, 0}
		for n := most; n >= 0 && n >= want-s.roomAhead[k][i+1]; n-- {
			here.Count = n
			if s.tryRun(k, here, want) {
				return true
			}
			if s.nodeBudget < 0 {
				return false
			}
		}
		return false
	}
	return false
}

// tryRun places a run and then the rest. If the rest does not fit, it takes the run back.
func (s *exhaustiveSearch) tryRun(k int, r Run, want int64) bool {
	if s.spendBudget(1); s.nodeBudget < 0 {
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

// isInterchangeable reports whether node i can take the place of last's node for all slots
// that are still to be placed: node i is now as last's node was before last was placed there.
func (s *exhaustiveSearch) isInterchangeable(k, i int, last *Run) bool {
	each := s.shapes[last.Shape].AmountPerSlot
	mine, its := s.row(i), s.row(last.Node)
	s.Spend(1 + len(mine)/needsPerStep)
	for t := range mine {
		if mine[t] != its[t]+last.Count*each[t] {
			return false
		}
	}
	return s.class(k, i) == s.class(k, last.Node)
}

// remainingLimitsFrom returns, by limit, whether any of the shapes from position k on is subject to it.
func (s *exhaustiveSearch) remainingLimitsFrom(k int) []bool {
	if s.remainingLimits[k] == nil {
		limits := s.shapes[s.shapeOrder[k]].Limits
		s.Spend(len(s.limits)/nodeSteps + len(limits))
		if k+1 < len(s.shapeOrder) {
			s.remainingLimits[k] = slices.Clone(s.remainingLimitsFrom(k + 1))
		} else {
			s.remainingLimits[k] = make([]bool, len(s.limits))
		}
		for _, l := range limits {
			s.remainingLimits[k][l] = true
		}
	}
	return s.remainingLimits[k]
}

// A classifier divides the nodes into classes. Nodes of one class are
// equal for the shapes from a position on, apart from the amounts left.
type classifier struct {
	// class has the class of each node; 0 if it is not computed yet.
	class []int32
	// classOf has the class of each key.
	classOf map[string]int32
	// limits are the limits of the shape at the position to which no later shape is subject.
	limits []int
}

// class returns the class of a node for the shapes from position k
// on. Two nodes are of one class if the same of these shapes may use
// them, and if they are in the same cells of these shapes' limits.
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
	n, known := x.classOf[string(key)]
	if !known {
		n = int32(len(x.classOf)) + 1
		x.classOf[string(key)] = n
	}
	x.class[i] = n
	return n
}

// classifier returns the classifier for the shapes from position k on. It makes it on first use.
func (s *exhaustiveSearch) classifier(k int) *classifier {
	if x := s.classifiers[k]; x != nil {
		return x
	}
	x := &classifier{class: make([]int32, len(s.order)), classOf: make(map[string]int32)}
	s.Spend(len(s.order) / nodeSteps)
	var later []bool
	if k+1 < len(s.shapeOrder) {
		later = s.remainingLimitsFrom(k + 1)
	}
	for _, l := range s.shapes[s.shapeOrder[k]].Limits {
		if later == nil || !later[l] {
			x.limits = append(x.limits, l)
		}
	}
	s.classifiers[k] = x
	return x
}
