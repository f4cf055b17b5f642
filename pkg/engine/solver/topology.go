package solver

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// A quest looks on one layout for the places that a topology asks for.
type quest struct {
	// Layout is the whole one, for what is asked without the topology.
	*Layout
	view View
	aims []Level
	// fill says of a shape that what its limits leave room for is found by laying it
	// out.
	fill []bool
	// index is by position of a node its index in the layout's order; -1 for none.
	index []int32
	// whole are the domains of the whole layout, by aim.
	whole map[int][]*domain
	// budget bounds the work by what is looked at, and patience the searches that
	// end without an answer.
	budget, patience int
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
	questBudget   = 1 << 18
	questPatience = 16
)

// gather lays out the least of every shape as the topology asks for.
func gather(b *Layout, v View) (Outcome, Shortfall) {
	t := &quest{Layout: &Layout{}, view: v, aims: b.levels}
	*t.Layout = *b
	t.levels, t.asked, t.runs, t.quest = nil, slices.Clone(b.asked), nil, nil
	for s := range t.asked {
		t.fill = append(t.fill, len(t.asked[s].Limits) > 0 && b.nested(s))
	}
	t.index = make([]int32, len(b.problem.Up))
	for i := range t.index {
		t.index[i] = -1
	}
	for i, at := range b.order {
		t.index[at] = int32(i)
	}
	p, o, failed := t.try()
	b.start(v)
	if o == Placed {
		t.found = p
		b.quest = t
		t.settle(b, p)
	}
	return o, failed
}

// settle lays out a plan on the layout that asked.
func (t *quest) settle(b *Layout, p *plan) {
	b.start(b.view)
	for _, r := range p.runs {
		r.Node = int(t.index[r.Node])
		b.take(r.Shape, r.Node, r.Count)
		b.runs = append(b.runs, r)
	}
}

// gatherMore lays out more slots of every shape with a range, in the order of the
// jobspec, as many as the topology leaves room for: where they stand best is looked
// for anew.
func (t *quest) gatherMore(b *Layout) {
	total := int64(0)
	for _, s := range t.asked {
		total += s.Count.Min
	}
	for i := range t.asked {
		count := t.asked[i].Count
		least := count.Min
		most := min(count.Max-least, MaxSlots-total, t.most(i)-least) + least
		if most > least {
			least = t.stretch(i, count, most)
		}
		total += least - count.Min
		t.asked[i].Count = jobspec.Exactly(least)
	}
	t.settle(b, t.found)
}

// stretch finds by halving how many slots of a shape there can be, up to most, and
// leaves their plan.
func (t *quest) stretch(s int, count jobspec.Count, most int64) int64 {
	best := count.Min
	for low, next := count.Min, most; low < most; next = low + (most-low+1)/2 {
		n := count.Floor(next)
		if n > best {
			t.asked[s].Count = jobspec.Exactly(n)
			p, o, _ := t.try()
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

// most bounds how many slots of a shape there can be.
func (t *quest) most(s int) int64 {
	sum := int64(0)
	for _, d := range t.domains(t.order, 0) {
		if t.aims[0].Rule == Together {
			sum = max(sum, d.room[s])
		} else {
			sum = Plus(sum, d.room[s])
		}
	}
	return sum
}

// try looks for a plan for the least of every shape.
func (t *quest) try() (*plan, Outcome, Shortfall) {
	t.budget, t.patience = questBudget, questPatience
	return t.reach(t.order, 0)
}

// reach looks for a plan on some nodes, for the aims from the one given on.
func (t *quest) reach(order []int32, at int) (*plan, Outcome, Shortfall) {
	if at == len(t.aims) {
		return t.lay(order)
	}
	domains := t.domains(order, at)
	switch t.aims[at].Rule {
	case Together:
		return t.reachTogether(order, domains, at)
	case Balanced:
		return t.reachBalanced(order, domains, at)
	case Few:
	}
	return t.reachFew(order, domains, at)
}

// lay looks for a plan on some nodes, wherever on them.
func (t *quest) lay(order []int32) (*plan, Outcome, Shortfall) {
	b := t.on(order)
	t.budget -= len(order) * len(t.asked)
	if !t.Charge(len(order)) {
		t.budget, t.patience = -1, 0
	}
	o, failed := b.solveWithin(t.view, t.patience > 0)
	if o == Unknown {
		t.patience--
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
		return b.Solve(v)
	}
	given := make([]int, len(b.asked))
	for i := range given {
		given[i] = i
	}
	failed, ok := b.greedy(v, given)
	if ok {
		return Placed, failed
	}
	if len(given) == 1 && b.nested(0) {
		return Impossible, failed
	}
	return Unknown, failed
}

// better says whether a plan uses fewer domains than another, which may be nil.
func (p *plan) better(than *plan) bool {
	return than == nil || slices.Compare(p.cost, than.cost) < 0
}

// least bounds from below what plans on some nodes cost of the aims from the one given
// on.
func (t *quest) least(order []int32, at int) []int {
	var least []int
	for i := range t.aims[at:] {
		n := 1
		if t.aims[at+i].Rule == Few {
			n = t.leastDomains(t.domains(order, at+i))
		}
		least = append(least, n)
	}
	return least
}

// with returns the plan with what it costs of an aim before its others.
func (p *plan) with(domains int) *plan {
	p.cost = append([]int{domains}, p.cost...)
	return p
}
