package traverser

// Remove removes the vertex with this containment path, and all
// vertices below it. It fails with match.ErrInvalid if there is no
// such vertex, if it is the root, or if a job holds something there.
func (t *Traverser) Remove(path string) error {
	g := &t.g
	u := g.find(path, anyRank)
	switch u {
	case none:
		return invalid("path: %q: no such vertex", path)
	case g.root:
		return invalid("path: %q: the root stays", path)
	}
	for _, j := range t.jobs {
		for i := range j.emissions {
			if e := &j.emissions[i]; g.under(e.u, u) {
				return invalid("path: %q: job %d holds %s", path, j.id, g.path(e.u))
			}
		}
	}
	t.rebuild(func() {
		in := g.in(g.parent[u])
		kept := make([]vid, 0, len(in.children)-1)
		for _, c := range in.children {
			if c != u {
				g.position[c] = int32(len(kept)) //nolint:gosec // fewer than vertices
				kept = append(kept, c)
			}
		}
		in.children = kept
		t.compact(u)
	})
	return nil
}

// compact removes the vertex gone and all vertices below it
// from the arrays, and gives the other vertices new indexes.
func (t *Traverser) compact(gone vid) {
	g := &t.g
	to := make([]vid, len(g.typ))
	fresh := newGraph()
	fresh.types, fresh.typeIDs = g.types, g.typeIDs
	for u := range vid(len(g.typ)) { //nolint:gosec // fewer than maxVertices
		to[u] = none
		if g.under(u, gone) {
			continue
		}
		m := merger{g: &fresh, part: g}
		to[u] = m.copy(u)
		if !g.attached(u) {
			fresh.count--
		}
	}
	for u, n := range to {
		if n == none {
			continue
		}
		if p := g.parent[u]; p != none {
			fresh.parent[n] = to[p]
		}
		fresh.position[n] = g.position[u]
		if in := g.in(vid(u)); in != nil { //nolint:gosec // fewer than maxVertices
			for i, c := range in.children {
				in.children[i] = to[c]
			}
			fresh.inside[n] = int32(len(fresh.inner)) //nolint:gosec // fewer than vertices
			fresh.inner = append(fresh.inner, in)
		}
	}
	fresh.root = to[g.root]
	for _, e := range g.aside {
		if to[e.from] != none && to[e.to] != none {
			fresh.aside = append(fresh.aside, aside{to[e.from], to[e.to], e.subsystem})
		}
	}
	*g = fresh
	for _, j := range t.jobs {
		for i := range j.emissions {
			j.emissions[i].u = to[j.emissions[i].u]
		}
	}
}
