package traverser

// A visit is the visit of one vertex.
type visit struct {
	u  vid
	in *inner
	hit
	next      *requests // the requests for the children
	exclusive bool
	pristine  bool
	free      int64
	score     int64
	factor    int64 // for the vertices below
}

// enter decides whether a vertex may be used, and for which request.
// pristine is set if no vertex above has matched a request. Only
// then does the walk pass through a vertex that matches no request.
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

// prune returns how much of a vertex is free. It returns false if the vertex cannot be used.
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
	if a.whole[typ] && !a.untouched(u, v.in) { // what other jobs hold below would be given out
		return 0, false
	}
	return free, v.asked == nil || a.fits(v.in, v.asked.below)
}

// untouched reports whether no job holds anything of a vertex or below it.
func (a *attempt) untouched(u vid, in *inner) bool {
	switch {
	case a.empty:
		return true
	case in != nil:
		return in.use.Empty() || in.use.Peak(a.start, a.end) == 0
	}
	return a.g.flags[u]&isBooked == 0 || a.g.plans[u].Peak(a.start, a.end) == 0
}

// fits reports whether the free amounts below a vertex cover what
// is needed. It checks only the types in the pruning filter.
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

// visit looks at a vertex, and adds what it offers to the frame of its parent.
func (a *attempt) visit(u vid, q *requests, exclusive, pristine bool, depth int) {
	v, ok := a.enter(u, q, exclusive, pristine)
	if !ok {
		return
	}
	above := &a.frames[depth-1]
	f := a.look(&v, above.keeping && v.own == nil, depth)
	above = &a.frames[depth-1] // a.frames may have been reallocated
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

// look explores the vertices below a vertex, and makes
// slots. It returns the frame with what was found.
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
		return a.look(v, true, depth) // their number depends on which candidates share a slot
	}
	a.buildSlots(v, f)
	return f
}
