package solver

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// A topologySearch searches for a placement that satisfies the topology of a layout.
type topologySearch struct {
	// Layout is a copy of the layout with all its nodes, but without the topology.
	*Layout
	view     View
	topology []Level
	// countByFill[s] is set if shape s has limits and they nest. Then
	// fill counts exactly how many of its slots fit in a domain.
	countByFill []bool
	// index has, by position of a node, its index in the layout's order; -1 if it has none.
	index []int32
	// allDomains caches the domains of all nodes, by index of the level.
	allDomains map[int][]*domain
	// budget is how many pairs of a node and a shape, and how many sets of
	// domains, the search may still look at. searches is how many more searches
	// may end with Unknown; after that only greedy placements are tried.
	budget, searches int
	// found is the best plan.
	found *topologyPlacement
}

// A plan is a placement that satisfies the topology.
type topologyPlacement struct {
	// runs has the placement. Run.Node is a position.
	runs []Run
	// cost has, by level, the number of domains that are used.
	cost []int
}

// topologyBudget and topologySearches are the budget and the searches of one call of place.
const (
	topologyBudget   = 1 << 18
	topologySearches = 16
)

// solveTopology places the minimum count of every shape as the topology demands.
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
		t.layPlacement(b, p)
	}
	return o, failed
}

// layPlacement places the slots of a plan on the layout b.
func (t *topologySearch) layPlacement(b *Layout, p *topologyPlacement) {
	b.start(b.view)
	for _, r := range p.runs {
		r.Node = int(t.index[r.Node])
		b.put(r.Shape, r.Node, r.Count)
		b.runs = append(b.runs, r)
	}
}

// extendTopology places more slots of each shape that has a range, in the order of
// the jobspec, as many as the topology has room for. For each count that it tries,
// it searches for the whole placement again, so slots may move to other domains.
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
	t.layPlacement(b, t.found)
}

// bisect finds by binary search the largest count of a shape, up
// to most, for which a plan is found. It sets found to that plan.
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

// maxSlots returns an upper bound on the number of
// slots of a shape under the rule of the first level.
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

// place searches for a plan for the minimum count of every shape.
func (t *topologySearch) place() (*topologyPlacement, Outcome, Shortfall) {
	t.budget, t.searches = topologyBudget, topologySearches
	return t.placeLevels(t.order, 0)
}

// placeLevels searches for a plan on the given nodes that satisfies the levels from this one on.
func (t *topologySearch) placeLevels(order []int32, level int) (*topologyPlacement, Outcome, Shortfall) {
	if level == len(t.topology) {
		return t.placeAnywhere(order)
	}
	domains := t.domains(order, level)
	switch t.topology[level].Rule {
	case OneDomain:
		return t.placeInOne(order, domains, level)
	case Balanced:
		return t.placeBalanced(order, domains, level)
	case FewestDomains:
	}
	return t.placeInFewest(order, domains, level)
}

// placeAnywhere searches for a plan anywhere on the given nodes, with no level left to satisfy.
func (t *topologySearch) placeAnywhere(order []int32) (*topologyPlacement, Outcome, Shortfall) {
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
	p := &topologyPlacement{runs: slices.Clone(b.runs)}
	for i := range p.runs {
		p.runs[i].Node = int(order[p.runs[i].Node])
	}
	return p, Placed, Shortfall{}
}

// solveWithin is like SolveMin. If search is false, it tries only to fill node by node.
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

// isBetter reports whether the plan uses fewer domains than another plan. The numbers
// of domains are compared level by level, outermost first. Any plan is better than nil.
func (p *topologyPlacement) isBetter(than *topologyPlacement) bool {
	return than == nil || slices.Compare(p.cost, than.cost) < 0
}

// minCost returns, for each level from this one on, a lower bound
// on the number of domains that a plan on these nodes uses.
func (t *topologySearch) minCost(order []int32, level int) []int {
	var least []int
	for i := range t.topology[level:] {
		n := 1
		if t.topology[level+i].Rule == FewestDomains {
			n = t.minDomains(t.domains(order, level+i))
		}
		least = append(least, n)
	}
	return least
}

// withCost puts the number of domains of the level above
// in front of the plan's cost. It returns the plan.
func (p *topologyPlacement) withCost(domains int) *topologyPlacement {
	p.cost = append([]int{domains}, p.cost...)
	return p
}
