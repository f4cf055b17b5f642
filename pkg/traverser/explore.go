package traverser

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

// countLeaves counts what the children offer, without a look at each child. It counts
// nothing, and returns false, if a child has children, if a child is down or booked, or if a
// request needs a look at each child. In an empty attempt, children may be down or booked.
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

// enough returns the number of children of a size after
// which a policy that stops early has enough for a request.
func (v *visit) enough(r *request, size int64) int64 {
	each := (max(1, r.most)-1)/size + 1
	if v.slot == nil {
		return each
	}
	return times(v.slot.most, each)
}

// hasInner reports whether a child has children.
func (in *inner) hasInner() bool {
	leaves := int64(0)
	for _, t := range in.leaves {
		leaves += t.count
	}
	return leaves < int64(len(in.children))
}

// visitChild visits a child. It skips a leaf that is not asked
// for, and takes a shorter way for a leaf that needs no checks.
func (a *attempt) visitChild(c vid, v *visit, exclusive bool, depth int) {
	g, q := a.g, v.next
	typ := g.typ[c]
	if g.inside[c] < 0 && q.slots == 0 {
		i := q.at[typ]
		if i < 0 {
			return // a leaf that is not asked for offers nothing
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

// takeLeaf adds a free leaf to the list of its type.
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
