package solver

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// A quest looks on one layout for the places that a topology asks for.
type topologySearch struct {
	// Layout is the whole one, for what is asked without the topology.
	*Layout
	view     View
	topology []Level
	// countByFill says of a shape that what its limits leave room for is found by laying it
	// out.
	countByFill []bool
	// index is by position of a node its index in the layout's order; -1 for none.
	index []int32
	// allDomains are the domains of the whole layout, by aim.
	allDomains map[int][]*domain
	// budget bounds the work by what is looked at, and patience the searches that
	// end without an answer.
	budget, searches int
	// found is what serves best.
	found *plan
}

// A plan is where slots can stand.
type plan struct {
	// runs name nodes by their positions.
	runs []Run
	// cost is by aim how many domains are used.
	cost []int
}

// The bounds of one quest.
const (
	topologyBudget   = 1 << 18
	topologySearches = 16
)

// solveTopology lays out the least of every shape as the topology asks for.
func solveTopology(b *Layout, v View) (Outcome, Shortfall) {
	t := &topologySearch{Layout: &Layout{}, view: v, topology: b.levels}
	*t.Layout = *b
	t.levels, t.shapes, t.runs, t.topologySearch = nil, slices.Clone(b.shapes), nil, nil
	for s := range t.shapes {
		t.countByFill = append(t.countByFill, len(t.shapes[s].Limits) > 0 && b.limitsNest(s))
	}
	t.index = make([]int32, len(b.problem.Up))
	for i := range t.index {
		t.index[i] = -1
	}
	for i, at := range b.order {
		t.index[at] = int32(i)
	}
	p, o, failed := t.place()
	b.start(v)
	if o == Placed {
		t.found = p
		b.topologySearch = t
		t.layPlan(b, p)
	}
	return o, failed
}

// layPlan lays out a plan on the layout that asked.
func (t *topologySearch) layPlan(b *Layout, p *plan) {
	b.start(b.view)
	for _, r := range p.runs {
		r.Node = int(t.index[r.Node])
		b.put(r.Shape, r.Node, r.Count)
		b.runs = append(b.runs, r)
	}
}

// extendTopology lays out more slots of every shape with a range, in the order of the
// jobspec, as many as the topology leaves room for: where they stand best is looked
// for anew.
func (t *topologySearch) extendTopology(b *Layout) {
	total := int64(0)
	for _, s := range t.shapes {
		total += s.Count.Min
	}
	for i := range t.shapes {
		count := t.shapes[i].Count
		least := count.Min
		most := min(count.Max-least, MaxSlots-total, t.maxSlots(i)-least) + least
		if most > least {
			least = t.bisect(i, count, most)
		}
		total += least - count.Min
		t.shapes[i].Count = jobspec.Exactly(least)
	}
	t.layPlan(b, t.found)
}

// bisect finds by halving how many slots of a shape there can be, up to most, and
// leaves their plan.
func (t *topologySearch) bisect(s int, count jobspec.Count, most int64) int64 {
	best := count.Min
	for low, next := count.Min, most; low < most; next = low + (most-low+1)/2 {
		n := count.Floor(next)
		if n > best {
			t.shapes[s].Count = jobspec.Exactly(n)
			p, o, _ := t.place()
			if o != Placed {
				most = n - 1
				continue
			}
			t.found, best = p, n
		}
		low = next
	}
	return best
}

// maxSlots bounds how many slots of a shape there can be.
func (t *topologySearch) maxSlots(s int) int64 {
	sum := int64(0)
	for _, d := range t.domains(t.order, 0) {
		if t.topology[0].Rule == OneDomain {
			sum = max(sum, d.room[s])
		} else {
			sum = SatAdd(sum, d.room[s])
		}
	}
	return sum
}

// place looks for a plan for the least of every shape.
func (t *topologySearch) place() (*plan, Outcome, Shortfall) {
	t.budget, t.searches = topologyBudget, topologySearches
	return t.placeLevels(t.order, 0)
}

// placeLevels looks for a plan on some nodes, for the aims from the one given on.
func (t *topologySearch) placeLevels(order []int32, at int) (*plan, Outcome, Shortfall) {
	if at == len(t.topology) {
		return t.placeAnywhere(order)
	}
	domains := t.domains(order, at)
	switch t.topology[at].Rule {
	case OneDomain:
		return t.placeInOne(order, domains, at)
	case Balanced:
		return t.placeBalanced(order, domains, at)
	case FewestDomains:
	}
	return t.placeInFewest(order, domains, at)
}

// placeAnywhere looks for a plan on some nodes, wherever on them.
func (t *topologySearch) placeAnywhere(order []int32) (*plan, Outcome, Shortfall) {
	b := t.withNodes(order)
	t.budget -= len(order) * len(t.shapes)
	if !t.Charge(len(order)) {
		t.budget, t.searches = -1, 0
	}
	o, failed := b.solveWithin(t.view, t.searches > 0)
	if o == Unknown {
		t.searches--
	}
	if o != Placed {
		return nil, o, failed
	}
	p := &plan{runs: slices.Clone(b.runs)}
	for i := range p.runs {
		p.runs[i].Node = int(order[p.runs[i].Node])
	}
	return p, Placed, Shortfall{}
}

// solveWithin is solve, and with no search leaves it at what is quickly known.
func (b *Layout) solveWithin(v View, search bool) (Outcome, Shortfall) {
	if search {
		return b.SolveMin(v)
	}
	given := make([]int, len(b.shapes))
	for i := range given {
		given[i] = i
	}
	failed, ok := b.greedy(v, given)
	if ok {
		return Placed, failed
	}
	if len(given) == 1 && b.limitsNest(0) {
		return Impossible, failed
	}
	return Unknown, failed
}

// isBetter says whether a plan uses fewer domains than another, which may be nil.
func (p *plan) isBetter(than *plan) bool {
	return than == nil || slices.Compare(p.cost, than.cost) < 0
}

// minCost bounds from below what plans on some nodes cost of the aims from the one given
// on.
func (t *topologySearch) minCost(order []int32, at int) []int {
	var least []int
	for i := range t.topology[at:] {
		n := 1
		if t.topology[at+i].Rule == FewestDomains {
			n = t.minDomains(t.domains(order, at+i))
		}
		least = append(least, n)
	}
	return least
}

// withCost returns the plan with what it costs of an aim before its others.
func (p *plan) withCost(domains int) *plan {
	p.cost = append([]int{domains}, p.cost...)
	return p
}
