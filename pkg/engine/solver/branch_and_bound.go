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
type tour struct {
	*packing
	steps []stop
	// rate are the prices that the bounds are made of.
	rate []int64
	// missing is by shape what the nodes from a step on have to bring.
	missing []int64
	// failed holds, by step and what was missing of all shapes but the last, the least
	// of the last with which there was no way from there on.
	failed map[uint64]int64
	last   int
	end    int // what must be left of the budget
	radix  []uint64
	// countable says that the states are few enough to have numbers.
	countable bool
}

// A stop is a node of a tour.
type stop struct {
	kind   int
	chosen int
	// worth is what this node and those after it are worth at the most, most by shape
	// how many slots they bring at the most.
	worth int64
	most  []int64
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

// newTour plans a tour.
func (p *packing) newTour() *tour {
	t := &tour{packing: p, rate: slices.Clone(p.price), missing: slices.Clone(p.want), failed: make(map[uint64]int64)}
	if t.countable = t.number(); !t.countable {
		return t
	}
	if t.Charge(t.nodes() * t.width) {
		t.budget -= t.nodes() * t.width
		t.plan()
	} else {
		t.budget, t.countable = -1, false
	}
	return t
}

// run goes on for some steps of the budget. It is proven that there is no way if none
// is found and the tour came to its end.
func (t *tour) run(budget int) (found, proven bool) {
	t.end = t.budget - budget
	t.appraise()
	copy(t.missing, t.want)
	found = t.from(0)
	if !found {
		return false, t.budget >= t.end
	}
	for k := range t.used {
		clear(t.used[k])
	}
	copy(t.short, t.want)
	for _, s := range t.steps {
		t.use(s.kind, s.chosen, 1)
	}
	return true, false
}

// number gives each state of a tour a number. It is false if there are too many.
func (t *tour) number() bool {
	for s, n := range t.want {
		if n > t.want[t.last] {
			t.last = s
		}
	}
	nodes := t.nodes()
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

// plan sets the order of the nodes: those first that are worth the most.
func (t *tour) plan() {
	order := make([]int, len(t.kinds))
	values := t.values()
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(values[y], values[x]) })
	for _, k := range order {
		for range t.kinds[k].nodes {
			t.steps = append(t.steps, stop{kind: k})
		}
	}
	largest := t.largest()
	most := make([]int64, t.width)
	for i := range slices.Backward(t.steps) {
		for s, n := range largest[t.steps[i].kind] {
			most[s] += int64(n)
		}
		t.steps[i].most = slices.Clone(most)
	}
}

// nodes counts the nodes of all kinds.
func (t *tour) nodes() int {
	nodes := 0
	for k := range t.kinds {
		nodes += len(t.kinds[k].nodes)
	}
	return nodes
}

// largest returns by kind and shape how many slots a node has at the most.
func (t *tour) largest() [][]int32 {
	all := make([][]int32, len(t.kinds))
	for k := range all {
		all[k] = make([]int32, t.width)
		if !t.Charge(len(t.kinds[k].patterns)) {
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

// appraise has the bounds of a tour follow the prices as they are now.
func (t *tour) appraise() {
	copy(t.rate, t.price)
	values := t.values()
	worth := int64(0)
	for i := range slices.Backward(t.steps) {
		worth += values[t.steps[i].kind]
		t.steps[i].worth = worth
	}
}

// values returns by kind what its dearest pattern is worth.
func (t *tour) values() []int64 {
	values := make([]int64, len(t.kinds))
	for k := range values {
		if !t.afford(len(t.kinds[k].patterns)) {
			break
		}
		for q := range t.used[k] {
			v := int64(0)
			for s, n := range t.pattern(k, q) {
				v += int64(n) * t.rate[s]
			}
			values[k] = max(values[k], v)
		}
	}
	return values
}

// from gives patterns to the nodes from a step on.
func (t *tour) from(i int) bool {
	wanted, done := int64(0), true
	for s, n := range t.missing {
		wanted += n * t.rate[s]
		done = done && n == 0
	}
	if done {
		return true
	}
	if i == len(t.steps) || wanted > t.steps[i].worth {
		return false
	}
	t.pay(stateSteps)
	key := uint64(i)
	for s, n := range t.missing {
		if n > t.steps[i].most[s] {
			return false
		}
		key += uint64(n) * t.radix[s]
	}
	least, ok := t.failed[key]
	if ok && t.missing[t.last] >= least {
		return false
	}
	if t.each(i, t.options(i)) {
		return true
	}
	if t.budget >= t.end {
		t.failed[key] = t.missing[t.last]
	}
	return false
}

// options returns the patterns that a node may have, the best first.
func (t *tour) options(i int) []option {
	k := t.steps[i].kind
	if !t.afford(len(t.kinds[k].patterns) * optionSteps) {
		return nil
	}
	all := t.steps[i].options[:0]
	for q := range t.used[k] {
		worth := int64(0)
		for s, n := range t.pattern(k, q) {
			worth += min(int64(n), t.missing[s]) * t.rate[s]
		}
		all = append(all, option{q, worth})
	}
	slices.SortFunc(all, func(x, y option) int {
		return cmp.Or(cmp.Compare(y.worth, x.worth), cmp.Compare(x.pattern, y.pattern))
	})
	t.steps[i].options = all
	return all
}

// each tries the options of a node one by one.
func (t *tour) each(i int, all []option) bool {
	t.steps[i].before = append(t.steps[i].before[:0], t.missing...)
	before := t.steps[i].before
	for _, c := range all {
		if t.pay(t.width); t.budget < t.end {
			return false
		}
		for s, n := range t.pattern(t.steps[i].kind, c.pattern) {
			t.missing[s] = max(0, before[s]-int64(n))
		}
		t.steps[i].chosen = c.pattern
		if t.from(i + 1) {
			return true
		}
	}
	copy(t.missing, before)
	return false
}
