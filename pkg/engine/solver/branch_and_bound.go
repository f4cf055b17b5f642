package solver

import (
	"cmp"
	"math"
	"slices"
)

// stateSteps is the cost of looking up a state in failed. optionSteps is the cost of sorting
// one pattern among the options of a node, per shape. Both are in steps of the search.
const (
	stateSteps  = 32
	optionSteps = 3
)

// A branchAndBound tries all ways to give patterns to the nodes, depth first,
// and leaves out the ways that a bound excludes. At each node it first tries the
// pattern that has the highest value. Only slots that are still missing count.
type branchAndBound struct {
	*packing
	// stages has the nodes, in the order in which they get their patterns.
	stages []stage
	// boundPrices are the prices that branch.maxValueFrom was computed with.
	boundPrices []int64
	// missing[s] is how many slots of shape s the nodes that have no pattern yet must take.
	missing []int64
	// deadStates has the states from which no solution exists. The key encodes the number of
	// the branch and what is missing of all shapes but last. The value is the smallest
	// number of missing slots of last that is known to fail; any larger number fails too.
	deadStates map[uint64]int64
	// last is the shape with the most slots. It is not part of the key.
	last      int
	budgetEnd int // the budget that this run must leave
	// radix[s] is the factor of missing[s] in the key.
	radix []uint64
	// numbered is set if every state has its own key. Otherwise the search is not run.
	numbered bool
}

// A branch is one level of the search: one node that gets a pattern.
type stage struct {
	class int
	// chosen is the pattern that the node has now.
	chosen int
	// maxValueFrom is an upper bound on the value of the patterns of this node and the nodes after it.
	maxValueFrom int64
	// maxSlots[s] is an upper bound on the slots of shape s on this node and the nodes after it.
	maxSlots []int64
	// before has what is missing before this node gets a pattern.
	before []int64
	// options are the patterns of the node, in the order in which they are tried.
	options []option
}

// An option is a pattern and its value; only slots that are still missing count.
type option struct {
	pattern int
	value   int64
}

// newBranchAndBound orders the nodes and prepares the search.
func (p *packing) newBranchAndBound() *branchAndBound {
	t := &branchAndBound{packing: p, boundPrices: slices.Clone(p.bestPrices), missing: slices.Clone(p.want), deadStates: make(map[uint64]int64)}
	if t.numbered = t.numberStates(); !t.numbered {
		return t
	}
	if t.Charge(t.nodeCount() * t.width) {
		t.countBudget -= t.nodeCount() * t.width
		t.orderNodes()
	} else {
		t.countBudget, t.numbered = -1, false
	}
	return t
}

// run searches from the first node with this budget, and uses the failed states of
// earlier runs. proven is true if it has tried all ways and none is a solution.
func (t *branchAndBound) run(budget int) (found, proven bool) {
	t.budgetEnd = t.countBudget - budget
	t.updateBounds()
	copy(t.missing, t.want)
	found = t.searchFrom(0)
	if !found {
		return false, t.countBudget >= t.budgetEnd
	}
	for k := range t.used {
		clear(t.used[k])
	}
	copy(t.short, t.want)
	for _, s := range t.stages {
		t.use(s.class, s.chosen, 1)
	}
	return true, false
}

// numberStates computes the radix. It returns false if there are too many states for the key.
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

// orderNodes orders the nodes by their most valuable
// pattern, highest value first, and computes maxSlots.
func (t *branchAndBound) orderNodes() {
	order := make([]int, len(t.classes))
	values := t.maxValues()
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(values[y], values[x]) })
	for _, k := range order {
		for range t.classes[k].nodes {
			t.stages = append(t.stages, stage{class: k})
		}
	}
	largest := t.maxCounts()
	most := make([]int64, t.width)
	for i := range slices.Backward(t.stages) {
		for s, n := range largest[t.stages[i].class] {
			most[s] += int64(n)
		}
		t.stages[i].maxSlots = slices.Clone(most)
	}
}

// nodeCount returns the number of nodes of all classes.
func (t *branchAndBound) nodeCount() int {
	nodes := 0
	for k := range t.classes {
		nodes += len(t.classes[k].nodes)
	}
	return nodes
}

// maxCounts returns, by class and shape, the largest count in any pattern of the class.
func (t *branchAndBound) maxCounts() [][]int32 {
	all := make([][]int32, len(t.classes))
	for k := range all {
		all[k] = make([]int32, t.width)
		if !t.Charge(len(t.classes[k].patterns)) {
			// No steps are left, so the counts are too small. Nothing wrong is proven with
			// them, because maxValues notices it too in the next run and ends the search.
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

// updateBounds computes the bounds of all branches again, with the prices as they are now.
func (t *branchAndBound) updateBounds() {
	copy(t.boundPrices, t.bestPrices)
	values := t.maxValues()
	worth := int64(0)
	for i := range slices.Backward(t.stages) {
		worth += values[t.stages[i].class]
		t.stages[i].maxValueFrom = worth
	}
}

// maxValues returns, by class, the value of its most valuable pattern.
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

// searchFrom gives patterns to the nodes from branch
// i on. It returns true if no slot is missing then.
func (t *branchAndBound) searchFrom(i int) bool {
	wanted, done := int64(0), true
	for s, n := range t.missing {
		wanted += n * t.boundPrices[s]
		done = done && n == 0
	}
	if done {
		return true
	}
	if i == len(t.stages) || wanted > t.stages[i].maxValueFrom {
		return false
	}
	t.spendBudget(stateSteps)
	key := uint64(i)
	for s, n := range t.missing {
		if n > t.stages[i].maxSlots[s] {
			return false
		}
		key += uint64(n) * t.radix[s]
	}
	least, ok := t.deadStates[key]
	if ok && t.missing[t.last] >= least {
		return false
	}
	if t.tryOptions(i, t.options(i)) {
		return true
	}
	if t.countBudget >= t.budgetEnd {
		t.deadStates[key] = t.missing[t.last]
	}
	return false
}

// options returns the patterns of the node of branch i, the most valuable first.
func (t *branchAndBound) options(i int) []option {
	k := t.stages[i].class
	if !t.chargeBudget(len(t.classes[k].patterns) * optionSteps) {
		return nil
	}
	all := t.stages[i].options[:0]
	for q := range t.used[k] {
		worth := int64(0)
		for s, n := range t.pattern(k, q) {
			worth += min(int64(n), t.missing[s]) * t.boundPrices[s]
		}
		all = append(all, option{q, worth})
	}
	slices.SortFunc(all, func(x, y option) int {
		return cmp.Or(cmp.Compare(y.value, x.value), cmp.Compare(x.pattern, y.pattern))
	})
	t.stages[i].options = all
	return all
}

// tryOptions tries the patterns for the node of branch i
// one after the other, each with all branches after it.
func (t *branchAndBound) tryOptions(i int, all []option) bool {
	t.stages[i].before = append(t.stages[i].before[:0], t.missing...)
	before := t.stages[i].before
	for _, c := range all {
		if t.spendBudget(t.width); t.countBudget < t.budgetEnd {
			return false
		}
		for s, n := range t.pattern(t.stages[i].class, c.pattern) {
			t.missing[s] = max(0, before[s]-int64(n))
		}
		t.stages[i].chosen = c.pattern
		if t.searchFrom(i + 1) {
			return true
		}
	}
	copy(t.missing, before)
	return false
}
