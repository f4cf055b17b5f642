package solver

import (
	"encoding/binary"
	"slices"
)

const (
	// maxPatterns is how many patterns are listed for all classes of nodes together.
	maxPatterns = 1 << 13
	// minClassPatterns is how many patterns are listed for each class
	// if there are so many classes that maxPatterns allows fewer.
	minClassPatterns = 1 << 8
	// patternBudgetShare bounds the lists: one pass over all patterns
	// takes at most 1/patternBudgetShare of the search budget.
	patternBudgetShare = 8
	// waysPerPattern is how many ways to fill a node may be tried per listed pattern.
	waysPerPattern = 16
	// waySteps is the cost of trying one way, in steps of the search.
	waySteps = 8
	// maxCountsPerShape is what packing.countsPerShape starts with.
	maxCountsPerShape = 64
)

// A nodeClass is a set of nodes that are equal for the
// request: the same shapes fit, and the same amounts are left.
type nodeClass struct {
	// nodes are indexes into the layout's order.
	nodes []int
	// patterns has the patterns one after the other, each with one count per shape. Invariant:
	// each pattern is maximal, so no further slot that is wanted fits on a node with it.
	patterns []int32
}

// An enumerator lists the patterns of one node.
type enumerator struct {
	*packing
	// node is the index of the node into the layout's order.
	node int
	// counts has, by shape, the slots that are placed on the node now.
	counts []int32
	// stride[j] is the step from one tried count of the shape at
	// position j to the next. 1 means that every count is tried.
	stride []int64
	// coarse is set if patterns may be skipped, because some stride may be above 1.
	coarse bool
	// found has the patterns that are listed so far, in the form of nodeClass.patterns.
	found []int32
	limit int // the largest number of patterns
	ways  int // how many more ways may be tried
}

// classify groups the nodes into classes and lists the patterns of each class. Nodes on
// which no shape fits are left out. It returns false if that takes the whole budget.
func (p *packing) classify() bool {
	index := make(map[string]int)
	var key []byte
	for i := range p.order {
		if p.countBudget < 0 {
			return false
		}
		var some bool
		key, some = p.classKey(key[:0], i)
		if !some {
			continue
		}
		at, ok := index[string(key)]
		if !ok {
			at = len(p.classes)
			index[string(key)] = at
			p.classes = append(p.classes, nodeClass{})
		}
		p.classes[at].nodes = append(p.classes[at].nodes, i)
	}
	p.allListed = true
	n := max(1, len(p.classes))
	limit := max(minClassPatterns, maxPatterns/n)
	limit = max(1, min(limit, p.countBudget/(patternBudgetShare*p.width*n)))
	for k := range p.classes {
		if p.listPatterns(&p.classes[k], limit); p.countBudget < 0 {
			return false
		}
	}
	return true
}

// classKey appends the key of the node's class: which shapes fit there, and what is
// left of each need. If there are limits, the key has the index of the node instead
// of the amounts, so every node is a class. The result is false if no shape fits.
func (p *packing) classKey(classKey []byte, i int) ([]byte, bool) {
	p.spendBudget(p.width)
	some := false
	for s := range p.want {
		p.Spend(p.fitSteps(s))
		fits := p.roomFor(s, i, 1) > 0
		some = some || fits
		if fits {
			classKey = append(classKey, 1)
		} else {
			classKey = append(classKey, 0)
		}
	}
	if len(p.limits) > 0 {
		return binary.AppendUvarint(classKey, uint64(i)), some
	}
	p.Spend(len(p.problem.Needs) / needsPerStep)
	for _, have := range p.row(i) {
		classKey = binary.AppendUvarint(classKey, uint64(have))
	}
	return classKey, some
}

// listPatterns lists the patterns of a class: all of them or, if
// there are too many, a sample that is evenly spread.
func (p *packing) listPatterns(k *nodeClass, limit int) {
	l := enumerator{packing: p, node: k.nodes[0], counts: make([]int32, p.width), stride: make([]int64, p.width), limit: limit}
	product := 1.0
	for j, s := range p.shapeOrder {
		l.stride[j] = 1
		if j < p.width-1 {
			product *= float64(1 + l.roomFor(s, l.node, l.want[s]))
		}
	}
	whole := product <= float64(limit*waysPerPattern) && l.run()
	for !whole && p.countBudget >= 0 {
		p.allListed, l.coarse = false, true
		for j, s := range l.shapeOrder {
			l.stride[j] = max(1, (l.roomFor(s, l.node, l.want[s])+p.countsPerShape-1)/p.countsPerShape)
		}
		if whole = l.run() || p.countsPerShape == 1; !whole {
			// Start the next class with the coarser counts too.
			p.countsPerShape /= 2
		}
	}
	if len(l.found) == 0 {
		l.addPattern()
	}
	k.patterns = l.found
	if l.coarse {
		k.patterns = l.distinct()
	}
}

// run lists the patterns from the start. It returns false if there are too many.
func (l *enumerator) run() bool {
	l.found, l.ways = l.found[:0], l.limit*waysPerPattern
	return l.enumerate(0)
}

// distinct returns the patterns that were found, each once.
func (l *enumerator) distinct() []int32 {
	all := slices.Collect(slices.Chunk(l.found, l.width))
	slices.SortFunc(all, slices.Compare)
	return slices.Concat(slices.CompactFunc(all, slices.Equal)...)
}

// enumerate lists the patterns that extend what is placed on the node
// by shapes from position j on. It returns false if there are too many.
func (l *enumerator) enumerate(j int) bool {
	l.spendBudget(waySteps)
	if l.ways--; l.ways < 0 || len(l.found) > l.limit*l.width || l.countBudget < 0 {
		return false
	}
	if j == l.width {
		l.addPattern()
		return true
	}
	s := l.shapeOrder[j]
	l.Spend(l.fitSteps(s))
	most := l.roomFor(s, l.node, l.want[s])
	for n := most; n >= 0; n -= l.stride[j] {
		l.put(s, l.node, n)
		l.counts[s] = int32(n)
		ok := l.enumerate(j + 1)
		l.put(s, l.node, -n)
		l.counts[s] = 0
		if !ok {
			return false
		}
		if j == l.width-1 {
			break
		}
	}
	return true
}

// addPattern records the slots that are placed as a pattern if no further slot
// fits. If patterns may be skipped, it fills up the pattern instead of dropping it.
func (l *enumerator) addPattern() {
	at := len(l.found)
	l.found = append(l.found, l.counts...)
	for _, s := range l.shapeOrder {
		l.Spend(l.fitSteps(s))
		switch more := l.roomFor(s, l.node, l.want[s]-int64(l.counts[s])); {
		case more == 0:
		case !l.coarse:
			l.found = l.found[:at]
			return
		default:
			l.put(s, l.node, more)
			defer l.put(s, l.node, -more)
			l.found[at+s] += int32(more)
		}
	}
}
