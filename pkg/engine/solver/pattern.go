package solver

import (
	"encoding/binary"
	"slices"
)

const (
	// How many patterns are listed: of all kinds of nodes together, and of one kind if
	// there are many.
	maxPatterns      = 1 << 13
	maxClassPatterns = 1 << 8
	// listPart is the part of a budget that may go into listing.
	listPart = 8
	// waysPerPattern is how many ways to fill a node are tried for one pattern, waySteps
	// how many steps of the search each of them counts.
	waysPerPattern    = 16
	waySteps          = 8
	maxCountsPerShape = 64
)

// A kind is a number of nodes on which the same slots fit.
type nodeClass struct {
	// nodes are indexes into the order.
	nodes []int
	// patterns say how many slots of each shape stand together on such a node, one
	// pattern after the other, as wide as there are shapes. None leaves room for one
	// more slot.
	patterns []int32
}

// A lister lists the patterns of one node.
type enumerator struct {
	*packing
	node   int
	counts []int32
	// stride is by how many slots of a shape patterns differ at the least, where
	// coarse says that some are passed over.
	stride []int64
	coarse bool
	found  []int32
	limit  int // of patterns
	ways   int // how many more may be tried
}

// classify sorts the nodes by what they are to the shapes, and lists the patterns of
// each kind. It is false if that took the whole budget.
func (p *packing) classify() bool {
	index := make(map[string]int)
	var key []byte
	for i := range p.order {
		if p.budget < 0 {
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
	limit := max(maxClassPatterns, maxPatterns/n)
	limit = max(1, min(limit, p.budget/(listPart*p.width*n)))
	for k := range p.classes {
		if p.list(&p.classes[k], limit); p.budget < 0 {
			return false
		}
	}
	return true
}

// classKey appends what makes two nodes of one kind: what is left of each need and which
// shapes may stand there. It is false where none fits. Where there are limits each
// node is of its own kind.
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

// list lists the patterns of a kind: all of them or, where there are too many, some
// that are spread over all.
func (p *packing) list(k *nodeClass, limit int) {
	l := enumerator{packing: p, node: k.nodes[0], counts: make([]int32, p.width), stride: make([]int64, p.width), limit: limit}
	product := 1.0
	for j, s := range p.shapeOrder {
		l.stride[j] = 1
		if j < p.width-1 {
			product *= float64(1 + l.roomFor(s, l.node, l.want[s]))
		}
	}
	whole := product <= float64(limit*waysPerPattern) && l.run()
	for !whole && p.budget >= 0 {
		p.allListed, l.coarse = false, true
		for j, s := range l.shapeOrder {
			l.stride[j] = max(1, (l.roomFor(s, l.node, l.want[s])+p.countsPerShape-1)/p.countsPerShape)
		}
		if whole = l.run() || p.countsPerShape == 1; !whole {
			// The next kind of node need not try what is too much for this.
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

// run lists patterns anew. It is false if they are too many.
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

// enumerate lists the patterns that go on from what is laid on the node, with the shapes
// from position j on. It is false if they are too many.
func (l *enumerator) enumerate(j int) bool {
	l.spendBudget(waySteps)
	if l.ways--; l.ways < 0 || len(l.found) > l.limit*l.width || l.budget < 0 {
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

// addPattern keeps a pattern that leaves room for no more; where some are passed over, one
// that does is filled up first.
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
