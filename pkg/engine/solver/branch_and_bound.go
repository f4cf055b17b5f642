package solver

import (
	"cmp"
	"math"
	"slices"
)

// How many steps of the search it counts to look up a state of a tour, and to sort a
// pattern among the others of a node, for each of its shapes.
const (
	stateSteps  = 32
	optionSteps = 3
)

// A tour goes through all ways to give the nodes patterns, depth first, the dearest of
// what is missing first.
type branchAndBound struct {
	*packing
	branches []branch
	// boundPrices are the prices that the bounds are made of.
	boundPrices []int64
	// missing is by shape what the nodes from a step on have to bring.
	missing []int64
	// failed holds, by step and what was missing of all shapes but the last, the least
	// of the last with which there was no way from there on.
	failed    map[uint64]int64
	last      int
	budgetEnd int // what must be left of the budget
	radix     []uint64
	// numbered says that the states are few enough to have numbers.
	numbered bool
}

// A stop is a node of a tour.
type branch struct {
	class  int
	chosen int
	// maxWorth is what this node and those after it are worth at the most, most by shape
	// how many slots they bring at the most.
	maxWorth int64
	maxSlots []int64
	// before is what is missing before the node has a pattern, options what patterns it
	// may have then.
	before  []int64
	options []option
}

// An option is a pattern and what of the missing it is worth.
type option struct {
	pattern int
	worth   int64
}

// newBranchAndBound plans a tour.
func (p *packing) newBranchAndBound() *branchAndBound {
	t := &branchAndBound{packing: p, boundPrices: slices.Clone(p.price), missing: slices.Clone(p.want), failed: make(map[uint64]int64)}
	if t.numbered = t.numberStates(); !t.numbered {
		return t
	}
	if t.Charge(t.nodeCount() * t.width) {
		t.budget -= t.nodeCount() * t.width
		t.orderNodes()
	} else {
		t.budget, t.numbered = -1, false
	}
	return t
}

// run goes on for some steps of the budget. It is proven that there is no way if none
// is found and the tour came to its end.
func (t *branchAndBound) run(budget int) (found, proven bool) {
	t.budgetEnd = t.budget - budget
	t.updateBounds()
	copy(t.missing, t.want)
	found = t.branchFrom(0)
	if !found {
		return false, t.budget >= t.budgetEnd
	}
	for k := range t.used {
		clear(t.used[k])
	}
	copy(t.short, t.want)
	for _, s := range t.branches {
		t.use(s.class, s.chosen, 1)
	}
	return true, false
}

// numberStates gives each state of a tour a number. It is false if there are too many.
func (t *branchAndBound) numberStates() bool {
	for s, n := range t.want {
		if n > t.want[t.last] {
			t.last = s
		}
	}
	nodes := t.nodeCount()
	t.radix = make([]uint64, t.width)
	product := float64(nodes)
	next := uint64(nodes)
	for s, n := range t.want {
		if s != t.last {
			t.radix[s] = next
			product *= float64(n + 1)
			next *= uint64(n + 1)
		}
	}
	return product < math.MaxInt64/2
}

// orderNodes sets the order of the nodes: those first that are worth the most.
func (t *branchAndBound) orderNodes() {
	order := make([]int, len(t.classes))
	values := t.maxValues()
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(values[y], values[x]) })
	for _, k := range order {
		for range t.classes[k].nodes {
			t.branches = append(t.branches, branch{class: k})
		}
	}
	largest := t.maxCounts()
	most := make([]int64, t.width)
	for i := range slices.Backward(t.branches) {
		for s, n := range largest[t.branches[i].class] {
			most[s] += int64(n)
		}
		t.branches[i].maxSlots = slices.Clone(most)
	}
}

// nodeCount counts the nodes of all kinds.
func (t *branchAndBound) nodeCount() int {
	nodes := 0
	for k := range t.classes {
		nodes += len(t.classes[k].nodes)
	}
	return nodes
}

// maxCounts returns by kind and shape how many slots a node has at the most.
func (t *branchAndBound) maxCounts() [][]int32 {
	all := make([][]int32, len(t.classes))
	for k := range all {
		all[k] = make([]int32, t.width)
		if !t.Charge(len(t.classes[k].patterns)) {
			// The work is spent. The next run finds that too, in values, and proves nothing.
			continue
		}
		for q := range t.used[k] {
			for s, n := range t.pattern(k, q) {
				all[k][s] = max(all[k][s], n)
			}
		}
	}
	return all
}

// updateBounds has the bounds of a tour follow the prices as they are now.
func (t *branchAndBound) updateBounds() {
	copy(t.boundPrices, t.price)
	values := t.maxValues()
	worth := int64(0)
	for i := range slices.Backward(t.branches) {
		worth += values[t.branches[i].class]
		t.branches[i].maxWorth = worth
	}
}

// maxValues returns by kind what its dearest pattern is worth.
func (t *branchAndBound) maxValues() []int64 {
	values := make([]int64, len(t.classes))
	for k := range values {
		if !t.chargeBudget(len(t.classes[k].patterns)) {
			break
		}
		for q := range t.used[k] {
			v := int64(0)
			for s, n := range t.pattern(k, q) {
				v += int64(n) * t.boundPrices[s]
			}
			values[k] = max(values[k], v)
		}
	}
	return values
}

// branchFrom gives patterns to the nodes from a step on.
func (t *branchAndBound) branchFrom(i int) bool {
	wanted, done := int64(0), true
	for s, n := range t.missing {
		wanted += n * t.boundPrices[s]
		done = done && n == 0
	}
	if done {
		return true
	}
	if i == len(t.branches) || wanted > t.branches[i].maxWorth {
		return false
	}
	t.spendBudget(stateSteps)
	key := uint64(i)
	for s, n := range t.missing {
		if n > t.branches[i].maxSlots[s] {
			return false
		}
		key += uint64(n) * t.radix[s]
	}
	least, ok := t.failed[key]
	if ok && t.missing[t.last] >= least {
		return false
	}
	if t.tryOptions(i, t.options(i)) {
		return true
	}
	if t.budget >= t.budgetEnd {
		t.failed[key] = t.missing[t.last]
	}
	return false
}

// options returns the patterns that a node may have, the best first.
func (t *branchAndBound) options(i int) []option {
	k := t.branches[i].class
	if !t.chargeBudget(len(t.classes[k].patterns) * optionSteps) {
		return nil
	}
	all := t.branches[i].options[:0]
	for q := range t.used[k] {
		worth := int64(0)
		for s, n := range t.pattern(k, q) {
			worth += min(int64(n), t.missing[s]) * t.boundPrices[s]
		}
		all = append(all, option{q, worth})
	}
	slices.SortFunc(all, func(x, y option) int {
		return cmp.Or(cmp.Compare(y.worth, x.worth), cmp.Compare(x.pattern, y.pattern))
	})
	t.branches[i].options = all
	return all
}

// tryOptions tries the options of a node one by one.
func (t *branchAndBound) tryOptions(i int, all []option) bool {
	t.branches[i].before = append(t.branches[i].before[:0], t.missing...)
	before := t.branches[i].before
	for _, c := range all {
		if t.spendBudget(t.width); t.budget < t.budgetEnd {
			return false
		}
		for s, n := range t.pattern(t.branches[i].class, c.pattern) {
			t.missing[s] = max(0, before[s]-int64(n))
		}
		t.branches[i].chosen = c.pattern
		if t.branchFrom(i + 1) {
			return true
		}
	}
	copy(t.missing, before)
	return false
}
