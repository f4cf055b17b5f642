package model

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// A candidate is a vertex, or a slot, that may be chosen for a request.
type candidate struct {
	score, count int64
	label        string // of the request for its type
	picks        []pick // none for the root
}

// A pick is an edge to be marked, and its mark.
type pick struct {
	edge *edge
	mark
}

// A mark is the data of a chosen edge.
type mark struct {
	needs int64
	x     bool
	label string
}

// found holds candidates by type.
type found map[string][]candidate

func (f found) count(typ string) (n int64) {
	for _, c := range f[typ] {
		if c.score > 0 {
			n += c.count
		}
	}
	return n
}

// An attempt is one walk for a start and a duration.
type attempt struct {
	g        *graph
	policy   policy
	shadow   map[string]bool
	holds    jobspec.Condition
	at, end  int64
	empty    bool // for satisfiability with an empty graph: vertices that are down count as up
	visited  map[*vertex]bool
	marks    map[*edge]mark
	conflict string // why the request contradicts itself
}

// run searches for the requests, and marks the edges to what it chose.
func (a *attempt) run(rs []request) (root mark, ok bool) {
	a.visited, a.marks = map[*vertex]bool{}, map[*edge]mark{}
	u := a.g.root
	all := found{}
	top, x, ok := a.visit(u, nil, rs, true, false, all)
	if !ok {
		return mark{}, false
	}
	all[u.typ] = append(all[u.typ], top)
	root = mark{1, x, top.label}
	for _, r := range rs {
		n := calc(r.Count, all.count(r.Type))
		if n == 0 {
			return mark{}, false
		}
		if r.Type == u.typ {
			if root.needs = calc(r.Count, top.count); root.needs == 0 {
				return mark{}, false
			}
		}
		for _, c := range a.choose(all, r.Type, n, atRoot) {
			a.mark(c)
			for _, p := range c.picks {
				for e := p.edge.from.up; e != nil; e = e.from.up {
					a.marks[e] = mark{needs: e.to.size}
				}
			}
		}
	}
	return root, true
}

func (a *attempt) mark(c candidate) {
	for _, p := range c.picks {
		a.marks[p.edge] = p.mark
	}
}

// choose sorts the candidates of a type and returns the first of them, enough for k.
func (a *attempt) choose(f found, typ string, k int64, at place) []candidate {
	a.policy.sort(f[typ], at)
	n := 0
	for ; n < len(f[typ]) && k > 0; n++ {
		k -= f[typ][n].count
	}
	return f[typ][:n]
}

// visit searches below u, and returns u as a candidate.
// Candidates below that nothing chose from go up.
func (a *attempt) visit(u, node *vertex, rs []request, pristine, x bool, up found) (c candidate, exclusive, ok bool) {
	slot, next, ok := a.fit(u, rs, &pristine)
	if !ok {
		return c, x, false
	}
	x = x || slices.ContainsFunc(rs, func(r request) bool { return r.Type == u.typ && r.Exclusive != nil && *r.Exclusive })
	if a.pruned(u, rs, x) {
		return c, x, false
	}
	if u.typ == "node" {
		if a.policy.node && (u.id < -1 || u.uniq < 0) {
			return c, x, false
		}
		node = u
	}
	a.visited[u] = true
	below := found{}
	if slot != nil {
		a.slots(u, node, slot, below)
	} else {
		a.explore(u, node, next, pristine, x, 1, below)
	}
	chosen, label := false, ""
	for _, r := range rs {
		if r.Type != u.typ {
			continue
		}
		label = r.Label
		for _, c := range r.with {
			n := calc(c.Count, below.count(c.Type))
			if n == 0 {
				return candidate{}, x, false
			}
			chosen = true
			for _, best := range a.choose(below, c.Type, n, inVertex) {
				a.mark(best)
			}
		}
	}
	if !chosen {
		for t, cs := range below {
			up[t] = append(up[t], cs...)
		}
	}
	return candidate{score: a.policy.score(u, node), count: u.size - u.own.peak(a.at, a.end), label: label}, x, true
}

// fit returns what to search below u: a slot to be filled there, or the requests for its children.
func (a *attempt) fit(u *vertex, rs []request, pristine *bool) (slot *request, next []request, ok bool) {
	var match *request
	hits := 0
	for i := range rs {
		switch rs[i].Type {
		case u.typ:
			hits++
			match = &rs[i]
			for j := range match.with {
				if match.with[j].Type == jobspec.SlotType {
					slot = &match.with[j]
				}
			}
		case jobspec.SlotType:
			hits++
			slot = &rs[i]
		}
	}
	if hits > 1 {
		a.conflict = "siblings in the jobspec request the same type, " + u.typ
		return nil, nil, false
	}
	if slot != nil && u.hasChildren(slot.with) {
		*pristine = false
		return slot, nil, true
	}
	if match != nil {
		*pristine = false
		return nil, match.with, true
	}
	return nil, rs, *pristine
}

// hasChildren reports whether the vertex has a child of each type in the requests.
func (v *vertex) hasChildren(rs []request) bool {
	for _, r := range rs {
		if !slices.ContainsFunc(v.out, func(e *edge) bool { return e.to.typ == r.Type }) {
			return false
		}
	}
	return true
}

// pruned reports whether it is useless to search below u.
func (a *attempt) pruned(u *vertex, rs []request, x bool) bool {
	switch {
	case u.down && !a.empty:
		return true
	case u.typ == "node" && !a.holds(u.name, u.rank, u.properties):
		return true
	case u.size-u.own.peak(a.at, a.end) <= 0:
		return true
	case a.shadow[u.typ] && !a.empty && u.used.peak(a.at, a.end) > 0:
		// Everything below it would be allocated, including what others hold.
		return true
	}
	for _, r := range rs {
		if r.Type != u.typ && r.Type != jobspec.SlotType {
			continue
		}
		if r.Type != jobspec.SlotType {
			if x && r.Exclusive != nil && !*r.Exclusive {
				a.conflict = "exclusive is false below what is exclusive, at " + u.name
				return true
			}
			if x && u.used.peak(a.at, a.end) > 0 {
				return true
			}
		}
		for t, n := range r.below {
			if b := u.below[t]; b != nil && b.size-b.peak(a.at, a.end) < n {
				return true
			}
		}
	}
	return false
}
