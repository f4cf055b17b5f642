package engine

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// A quest looks on one board for the places that a topology asks for.
type quest struct {
	// board is the whole one, for what is asked without the topology.
	*board
	view view
	aims []aim
	// fill says of a shape that what its limits leave room for is found by laying it
	// out.
	fill []bool
	// index is by position of a node its index in the board's order; -1 for none.
	index []int32
	// whole are the domains of the whole board, by aim.
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
	runs []run
	// cost is by aim how many domains are used.
	cost []int
}

// The bounds of one quest.
const (
	questBudget   = 1 << 18
	questPatience = 16
)

// gather lays out the least of every shape as the topology asks for.
func (b *board) gather(v view) (outcome, shortfall) {
	flat := *b.ask
	flat.topology, flat.shapes = nil, slices.Clone(flat.shapes)
	t := &quest{board: &board{}, view: v, aims: aims(b.ask.topology)}
	*t.board = *b
	t.ask, t.runs, t.quest = &flat, nil, nil
	for s := range flat.shapes {
		t.fill = append(t.fill, len(flat.shapes[s].limits) > 0 && b.nested(s))
	}
	t.index = make([]int32, len(b.nodes))
	for i := range t.index {
		t.index[i] = -1
	}
	for i, at := range b.order {
		t.index[at] = int32(i)
	}
	p, o, failed := t.try()
	b.start(v)
	if o == placed {
		t.found = p
		b.quest = t
		b.settle(p)
	}
	return o, failed
}

// settle lays out a plan.
func (b *board) settle(p *plan) {
	b.start(b.view)
	for _, r := range p.runs {
		r.node = int(b.quest.index[r.node])
		b.take(r.shape, r.node, r.count)
		b.runs = append(b.runs, r)
	}
}

// gatherMore lays out more slots of every shape with a range, in the order of the
// jobspec, as many as the topology leaves room for: where they stand best is looked
// for anew.
func (b *board) gatherMore() {
	t := b.quest
	total := int64(0)
	for _, s := range t.ask.shapes {
		total += s.count.Min
	}
	for i := range t.ask.shapes {
		count := t.ask.shapes[i].count
		least := count.Min
		most := min(count.Max-least, maxSlots-total, t.most(i)-least) + least
		if most > least {
			least = t.stretch(i, count, most)
		}
		total += least - count.Min
		t.ask.shapes[i].count = jobspec.Exactly(least)
	}
	b.settle(t.found)
}

// stretch finds by halving how many slots of a shape there can be, up to most, and
// leaves their plan.
func (t *quest) stretch(s int, count jobspec.Count, most int64) int64 {
	best := count.Min
	for low, next := count.Min, most; low < most; next = low + (most-low+1)/2 {
		n := count.Floor(next)
		if n > best {
			t.ask.shapes[s].count = jobspec.Exactly(n)
			p, o, _ := t.try()
			if o != placed {
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
		if t.aims[0].rule == together {
			sum = max(sum, d.room[s])
		} else {
			sum = plus(sum, d.room[s])
		}
	}
	return sum
}

// try looks for a plan for the least of every shape.
func (t *quest) try() (*plan, outcome, shortfall) {
	t.budget, t.patience = questBudget, questPatience
	return t.reach(t.order, 0)
}

// reach looks for a plan on some nodes, for the aims from the one given on.
func (t *quest) reach(order []int32, at int) (*plan, outcome, shortfall) {
	if at == len(t.aims) {
		return t.lay(order)
	}
	domains := t.domains(order, at)
	switch t.aims[at].rule {
	case together:
		return t.reachTogether(order, domains, at)
	case balanced:
		return t.reachBalanced(order, domains, at)
	case few:
	}
	return t.reachFew(order, domains, at)
}

// lay looks for a plan on some nodes, wherever on them.
func (t *quest) lay(order []int32) (*plan, outcome, shortfall) {
	b := t.on(order)
	t.budget -= len(order) * len(t.ask.shapes)
	if !t.charge(len(order)) {
		t.budget, t.patience = -1, 0
	}
	o, failed := b.solveWithin(t.view, t.patience > 0)
	if o == unknown {
		t.patience--
	}
	if o != placed {
		return nil, o, failed
	}
	p := &plan{runs: slices.Clone(b.runs)}
	for i := range p.runs {
		p.runs[i].node = int(order[p.runs[i].node])
	}
	return p, placed, shortfall{}
}

// on returns the board with the nodes of these positions only. Of the two just one is
// used at a time: they have their rows in common.
func (b *board) on(order []int32) *board {
	part := *b
	part.order, part.runs = order, nil
	return &part
}

// solveWithin is solve, and with no search leaves it at what is quickly known.
func (b *board) solveWithin(v view, search bool) (outcome, shortfall) {
	if search {
		return b.solve(v)
	}
	given := make([]int, len(b.ask.shapes))
	for i := range given {
		given[i] = i
	}
	failed, ok := b.greedy(v, given)
	if ok {
		return placed, failed
	}
	if len(given) == 1 && b.nested(0) {
		return impossible, failed
	}
	return unknown, failed
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
		if t.aims[at+i].rule == few {
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
