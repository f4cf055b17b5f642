package traverser

// A visit is what a vertex is looked at with.
type visit struct {
	u  vid
	in *inner
	hit
	next      *requests // what its children are visited with
	exclusive bool
	pristine  bool
	free      int64
	score     int64
	factor    int64 // for what is below
}

// enter decides whether a vertex may serve, and as what. pristine says that
// nothing was matched on the way here: then a vertex that nothing is asked of is
// passed through.
func (a *attempt) enter(u vid, q *requests, exclusive, pristine bool) (v visit, ok bool) {
	v = visit{u: u, in: a.g.in(u), next: q, exclusive: exclusive, pristine: false, factor: a.factor}
	v.hit = a.fit(u, v.in, q)
	switch {
	case v.fails:
		a.fault = errSiblings
		return v, false
	case v.slot != nil:
		v.next = v.slot.with
	case v.own != nil:
		v.next = v.own.with
	case !pristine:
		return v, false
	default:
		v.pristine = true
	}
	if v.own != nil && v.own.exclusive {
		v.exclusive = true
	}
	if v.free, ok = a.prune(&v); !ok {
		return v, false
	}
	factor := a.factor
	if a.policy.nodeCentric && typeID(a.g.typ[u]) == typeNode {
		factor = 0
		v.factor = nodeFactor(a.g.id[u], a.g.uniq[u])
	}
	v.score, ok = a.policy.score(a.g, u, factor)
	return v, ok
}

// prune says whether a vertex is out of the question, and how much of it is free.
func (a *attempt) prune(v *visit) (free int64, ok bool) {
	g, u := a.g, v.u
	free = g.size[u]
	if !a.empty {
		if g.flags[u]&isDown != 0 {
			return 0, false
		}
		if g.flags[u]&isBooked != 0 {
			free -= g.plans[u].Peak(a.start, a.end)
		}
	}
	if free <= 0 {
		return 0, false
	}
	typ := typeID(g.typ[u])
	if a.holds != nil && typ == typeNode && !a.holds(g.name(u), g.rank[u], g.properties[u]) {
		return 0, false
	}
	if v.own != nil {
		if v.exclusive && v.own.shareable {
			a.fault = invalid("jobspec: resources: type %q: exclusive: false inside of what is taken exclusively", g.types[typ])
			return 0, false
		}
		if v.exclusive && !a.untouched(u, v.in) || !a.fits(v.in, v.own.below) {
			return 0, false
		}
	}
	if a.whole[typ] && !a.untouched(u, v.in) { // all below would be given out, also what others hold
		return 0, false
	}
	return free, v.asked == nil || a.fits(v.in, v.asked.below)
}

// untouched says whether no job holds anything of a vertex or below it.
func (a *attempt) untouched(u vid, in *inner) bool {
	switch {
	case a.empty:
		return true
	case in != nil:
		return in.use.Empty() || in.use.Peak(a.start, a.end) == 0
	}
	return a.g.flags[u]&isBooked == 0 || a.g.plans[u].Peak(a.start, a.end) == 0
}

// fits says whether what is free below a vertex covers what is needed, as far as
// its pruning filter knows.
func (a *attempt) fits(in *inner, need []sum) bool {
	if in == nil || in.free == nil {
		return true
	}
	for i, typ := range in.free.types {
		for _, n := range need {
			if n.typ != typ || n.amount <= in.free.plan.Totals()[i] && (a.empty || in.free.plan.Empty()) {
				continue
			}
			if a.empty || in.free.plan.Free(i, a.start, a.end) < n.amount {
				return false
			}
		}
	}
	return true
}

// visit looks at a vertex for its parent, whose frame is the one above: it notes
// there what the vertex has to offer.
func (a *attempt) visit(u vid, q *requests, exclusive, pristine bool, depth int) {
	v, ok := a.enter(u, q, exclusive, pristine)
	if !ok {
		return
	}
	above := &a.frames[depth-1]
	f := a.look(&v, above.keeping && v.own == nil, depth)
	above = &a.frames[depth-1] // frames may have moved
	if v.own != nil {
		for i := range v.own.with.list {
			r := &v.own.with.list[i]
			if r.count.Floor(f.sum(r.typ)) == 0 {
				return
			}
		}
	} else {
		for i := range f.lists {
			if to := above.of(f.lists[i].typ); to != nil {
				to.take(&f.lists[i], above.keeping)
			}
		}
	}
	to := above.of(typeID(a.g.typ[u]))
	if to == nil {
		return
	}
	to.note(1, v.free)
	if above.keeping {
		to.found = append(to.found, candidate{score: v.score, count: v.free, at: u, by: q, exclusive: v.exclusive})
	}
}

// look explores what is below a vertex and returns what was found, slots
// included.
func (a *attempt) look(v *visit, keeping bool, depth int) *frame {
	f := a.frame(depth, keeping)
	for i := range v.next.list {
		f.want(v.next.list[i].typ)
	}
	if v.slot != nil {
		f.want(typeSlot)
	}
	if v.own == nil && depth > 0 {
		for _, l := range a.frames[depth-1].lists {
			f.want(l.typ)
		}
	}
	factor := a.factor
	a.factor = v.factor
	if v.in != nil && len(v.next.list) > 0 {
		a.explore(v, depth)
	}
	a.factor = factor
	f = &a.frames[depth]
	if v.slot == nil {
		return f
	}
	if n, even := f.evenSlots(v.slot.with); even && !f.keeping {
		f.of(typeSlot).note(n, 1)
		return f
	}
	if !f.keeping {
		return a.look(v, true, depth) // how many there are depends on which come together
	}
	a.buildSlots(v, f)
	return f
}

// explore visits the children of a vertex.
func (a *attempt) explore(v *visit, depth int) {
	exclusive := v.exclusive || v.slot != nil
	a.seen += len(v.in.children)
	if !v.pristine && !a.frames[depth].keeping && a.countLeaves(v, exclusive, depth) {
		return
	}
	if a.policy.early {
		a.exploreEarly(v, exclusive, depth)
		return
	}
	for _, c := range v.in.children {
		a.visitChild(c, v, exclusive, depth)
	}
}

// countLeaves counts without looking at each child, where all are leaves that
// nothing was ever done to.
func (a *attempt) countLeaves(v *visit, exclusive bool, depth int) bool {
	q := v.next
	if q.slots > 0 || v.in.touched > 0 && (!a.empty || v.in.hasInner()) {
		return false
	}
	for i := range q.list {
		r := &q.list[i]
		if len(r.with.list) > 0 || r.typ == typeNode || a.whole[r.typ] || q.twice[r.typ] || r.shareable && exclusive {
			return false
		}
	}
	for _, t := range v.in.leaves {
		if q.at[t.typ] >= 0 && t.size < 0 {
			return false
		}
	}
	f := &a.frames[depth]
	for _, t := range v.in.leaves {
		if q.at[t.typ] < 0 || t.sum == 0 {
			continue
		}
		count := t.count
		if a.policy.early {
			count = min(count, v.enough(&q.list[q.at[t.typ]], t.size))
		}
		f.of(t.typ).note(count, t.size)
	}
	return true
}

// enough returns after how many children, each of a size, a policy that stops early
// has what a request asks for.
func (v *visit) enough(r *request, size int64) int64 {
	each := (max(1, r.most)-1)/size + 1
	if v.slot == nil {
		return each
	}
	return times(v.slot.most, each)
}

// hasInner says whether a child has children.
func (in *inner) hasInner() bool {
	leaves := int64(0)
	for _, t := range in.leaves {
		leaves += t.count
	}
	return leaves < int64(len(in.children))
}

// visitChild visits a child, sparing the leaves that are not asked for or have
// nothing special the whole of it.
func (a *attempt) visitChild(c vid, v *visit, exclusive bool, depth int) {
	g, q := a.g, v.next
	typ := g.typ[c]
	if g.inside[c] < 0 && q.slots == 0 {
		i := q.at[typ]
		if i < 0 {
			return // a leaf that is passed through offers nothing that is asked for
		}
		r := &q.list[i]
		if g.flags[c]&(isDown|isBooked) == 0 && len(r.with.list) == 0 && !r.exclusive && !r.shareable &&
			typeID(typ) != typeNode && !q.twice[typ] && g.size[c] > 0 {
			a.takeLeaf(c, q, exclusive, depth)
			return
		}
	}
	a.visit(c, q, exclusive, v.pristine, depth+1)
}

// takeLeaf notes a free leaf.
func (a *attempt) takeLeaf(c vid, q *requests, exclusive bool, depth int) {
	f := &a.frames[depth]
	l := f.of(typeID(a.g.typ[c]))
	size := a.g.size[c]
	l.note(1, size)
	if !f.keeping {
		return
	}
	score, _ := a.policy.score(a.g, c, a.factor)
	l.found = append(l.found, candidate{score: score, count: size, at: c, by: q, exclusive: exclusive})
}
