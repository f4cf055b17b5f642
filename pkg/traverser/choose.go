package traverser

import (
	"fmt"
	"slices"
)

// A mark is a vertex that was chosen, or a vertex above one.
type mark struct {
	u vid
	// amount is how much of the vertex is taken if it is taken exclusively.
	amount    int64
	exclusive bool
	// slot is the number of the slot for which the vertex was chosen; -1 for none.
	slot int32
	// own is the request for which the vertex was chosen;
	// nil for a vertex that is only above others.
	own *request
	// child is the index of the first mark below the vertex, and next the index of the next mark
	// below the same parent; -1 for none. children is the number of marks below the vertex.
	child, next, children int32
}

// A choice collects what was chosen.
type choice struct {
	marks []mark
	// at has, by vertex, the index of its mark plus 1; 0 for none.
	at []int32
	// slots has the request of each chosen slot, in the order of choice.
	slots []*request
	// picked is a stack of the candidates that were picked.
	picked []candidate
}

func (c *choice) reset(vertices int) {
	for i := range c.marks {
		c.at[c.marks[i].u] = 0
	}
	c.marks, c.slots, c.picked = c.marks[:0], c.slots[:0], c.picked[:0]
	if len(c.at) < vertices {
		c.at = make([]int32, vertices)
	}
}

// mark adds a mark for a vertex, or changes the mark that the vertex has.
func (c *choice) mark(g *graph, m mark) {
	if i := c.at[m.u]; i > 0 {
		old := &c.marks[i-1]
		old.amount, old.exclusive, old.slot, old.own = m.amount, m.exclusive, m.slot, m.own
		return
	}
	m.child, m.next, m.children = -1, -1, 0
	c.marks = append(c.marks, m)
	here := int32(len(c.marks)) //nolint:gosec // fewer than vertices
	c.at[m.u] = here
	if p := g.parent[m.u]; p != none {
		if i := c.at[p]; i > 0 {
			c.marks[here-1].next = c.marks[i-1].child
			c.marks[i-1].child = here - 1
			c.marks[i-1].children++
		}
	}
}

// markWay marks a vertex and all vertices above it as shared, unless they have marks.
func (c *choice) markWay(g *graph, u vid) {
	if u == none || c.at[u] > 0 {
		return
	}
	c.markWay(g, g.parent[u])
	c.mark(g, mark{u: u, amount: g.size[u], slot: -1})
}

// pick puts candidates of a list on the stack: as many as r asks for. If r asks for a range, it
// takes as many as the range accepts of what was found. It returns false if there are not enough.
func (a *attempt) pick(c *choice, r *request, l *list, o order) bool {
	need := r.count.Floor(l.sum)
	if need == 0 {
		return false
	}
	a.sort(l, o)
	for i, got := 0, int64(0); got < need; i++ {
		got += l.found[i].count
		c.picked = append(c.picked, l.found[i])
	}
	return true
}

// settle marks what was picked since the stack had
// the size from, and chooses what is needed below it.
func (a *attempt) settle(c *choice, from int, slot int32, top bool, depth int) {
	for i := from; i < len(c.picked); i++ {
		p := c.picked[i]
		if p.slot == nil {
			a.take(c, &p, slot, top, depth)
			continue
		}
		c.slots = append(c.slots, p.slot)
		number := int32(len(c.slots) - 1) //nolint:gosec // fewer than vertices
		for m := p.first; m < p.last; m++ {
			member := a.members[m]
			a.take(c, &member, number, top, depth)
		}
	}
	c.picked = c.picked[:from]
}

// take marks a vertex and chooses what is needed below it.
func (a *attempt) take(c *choice, p *candidate, slot int32, top bool, depth int) {
	g := a.g
	own := &p.by.list[p.by.at[g.typ[p.at]]]
	if top {
		c.markWay(g, g.parent[p.at])
	}
	c.mark(g, mark{u: p.at, amount: p.count, exclusive: p.exclusive, slot: slot, own: own})
	if len(own.with.list) > 0 {
		a.chooseBelow(c, p, slot, depth)
	}
}

// chooseBelow looks again at a vertex that was chosen, to choose what is needed below it.
// It must look again, because the first walk did not keep what it found below each vertex.
func (a *attempt) chooseBelow(c *choice, p *candidate, slot int32, depth int) {
	a.factor = 0
	if n := a.g.nodeOf(p.at); a.policy.nodeCentric && n != none && n != p.at {
		a.factor = nodeFactor(a.g.id[n], a.g.uniq[n])
	}
	v, ok := a.enter(p.at, p.by, p.exclusive, true)
	if !ok || v.own == nil {
		a.broken = fmt.Errorf("match: %s was chosen and serves no more", a.g.path(p.at))
		return
	}
	f := a.look(&v, true, depth)
	from := len(c.picked)
	for i := range v.own.with.list {
		r := &v.own.with.list[i]
		if !a.pick(c, r, f.of(r.typ), orderInside) {
			a.broken = fmt.Errorf("match: what was found below %s is there no more", a.g.path(p.at))
			c.picked = c.picked[:from]
			return
		}
	}
	a.settle(c, from, slot, false, depth+1)
}

// An emission is a vertex of a result.
type emission struct {
	u         vid
	slot      int32
	exclusive bool
	amount    int64
}

// An emitter walks the marked vertices, in the order of the edges.
type emitter struct {
	a   *attempt
	c   *choice
	out []emission
	// taken is set if anything is held exclusively.
	taken bool
	order []vid
}

// emit writes a vertex after what is held below it. It writes nothing, and
// returns false, if nothing is held. With whole, everything below is held.
func (e *emitter) emit(u vid, whole bool, slot int32) bool {
	g := e.a.g
	whole = whole || e.a.whole[g.typ[u]]
	held, amount := whole, g.size[u]
	var m *mark
	if at := e.c.at[u]; at > 0 {
		m = &e.c.marks[at-1]
		held, amount = whole || m.exclusive, m.amount
		if m.slot >= 0 {
			slot = m.slot
		}
	}
	some := held
	switch in := g.in(u); {
	case in == nil:
	case whole:
		for _, c := range in.children {
			e.emit(c, true, slot)
		}
	case m != nil:
		some = e.emitMarked(in, m, slot) || some
	}
	if !some {
		return false
	}
	e.taken = e.taken || held
	e.out = append(e.out, emission{u: u, slot: slot, exclusive: held, amount: amount})
	return true
}

// emitMarked writes the marked children, in the order
// of the edges. It reports whether it wrote any.
func (e *emitter) emitMarked(in *inner, m *mark, slot int32) bool {
	some := false
	if int(m.children) > len(in.children)/8 { // checking each child is cheaper than sorting
		for _, c := range in.children {
			if e.c.at[c] > 0 {
				some = e.emit(c, false, slot) || some
			}
		}
		return some
	}
	from := len(e.order)
	for i := m.child; i >= 0; i = e.c.marks[i].next {
		e.order = append(e.order, e.c.marks[i].u)
	}
	g := e.a.g
	slices.SortFunc(e.order[from:], func(x, y vid) int { return int(g.position[x]) - int(g.position[y]) })
	for k, to := from, len(e.order); k < to; k++ {
		some = e.emit(e.order[k], false, slot) || some
	}
	e.order = e.order[:from]
	return some
}
