package model

import (
	"cmp"
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// A candidate is a vertex, or a slot, that may be chosen for a request.
type candidate struct {
	score, count int64
	label        string // of the request for its type
	picks        []pick // none for the root
}

// A pick is an edge to be marked.
type pick struct {
	edge *edge
	mark
}

// A mark is what an edge that was chosen carries.
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
	empty    bool // asks whether an empty graph would do: what is down counts as up
	visited  map[*vertex]bool
	marks    map[*edge]mark
	conflict string // why the request contradicts itself
}

// run looks for the requests and marks the edges to what it chose.
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

// choose sorts the candidates of a type and returns the first that make k.
func (a *attempt) choose(f found, typ string, k int64, at place) []candidate {
	a.policy.sort(f[typ], at)
	n := 0
	for ; n < len(f[typ]) && k > 0; n++ {
		k -= f[typ][n].count
	}
	return f[typ][:n]
}

// visit looks below u and returns it as a candidate. What was found below and
// not chosen from goes up.
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

// fit says how requests go on below u: a slot to be filled there, or the
// requests for its children.
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

// hasChildren says whether every type that is asked for is a child's.
func (v *vertex) hasChildren(rs []request) bool {
	for _, r := range rs {
		if !slices.ContainsFunc(v.out, func(e *edge) bool { return e.to.typ == r.Type }) {
			return false
		}
	}
	return true
}

// pruned says whether there is no use in looking below u.
func (a *attempt) pruned(u *vertex, rs []request, x bool) bool {
	switch {
	case u.down && !a.empty:
		return true
	case u.typ == "node" && !a.holds(u.name, u.rank, u.properties):
		return true
	case u.size-u.own.peak(a.at, a.end) <= 0:
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

// explore visits the children of u for requests and collects candidates. Where
// the policy stops early, it does so when there is enough for every request
// times over.
func (a *attempt) explore(u, node *vertex, rs []request, pristine, x bool, times int64, into found) {
	edges := u.out
	if a.policy.stops {
		edges = slices.Clone(edges)
		slices.SortStableFunc(edges, func(e, f *edge) int {
			return cmp.Or(cmp.Compare(f.weight, e.weight), cmp.Compare(f.to.uniq, e.to.uniq))
		})
	}
	satisfied := map[string]bool{}
	for _, e := range edges {
		v := e.to
		if a.visited[v] || satisfied[v.typ] {
			continue
		}
		c, x, ok := a.visit(v, node, rs, pristine, x, into)
		if !ok {
			continue
		}
		c.picks = []pick{{e, mark{c.count, x, c.label}}}
		into[v.typ] = append(into[v.typ], c)
		if !a.policy.stops {
			continue
		}
		enough := true
		for _, r := range rs {
			if bundles(into[r.Type], most(r.Count)) >= times {
				satisfied[r.Type] = true
			} else {
				enough = false
			}
		}
		if enough {
			return
		}
	}
}

// bundles counts how many shares of size n whole candidates make, in order.
func bundles(cs []candidate, n int64) (full int64) {
	var got int64
	for _, c := range cs {
		if got += c.count; got >= n {
			full++
			got = 0
		}
	}
	return full
}

// slots fills as many slots at u as there are whole shares for.
func (a *attempt) slots(u, node *vertex, slot *request, into found) {
	content := found{}
	a.explore(u, node, slot.with, false, true, most(slot.Count), content)
	for t := range content {
		a.policy.sort(content[t], inSlot)
	}
	n := int64(-1)
	for _, r := range slot.with {
		k := calc(r.Count, content.count(r.Type))
		full := int64(0)
		if k > 0 {
			full = bundles(content[r.Type], k)
		}
		if n < 0 || full < n {
			n = full
		}
	}
	next := map[string]int{}
	shares := map[string]int64{}
	for _, r := range slot.with {
		shares[r.Type] = calc(r.Count, content.count(r.Type))
	}
	for range n {
		c := candidate{score: 1, count: 1}
		for _, r := range slot.with {
			for got := int64(0); got < shares[r.Type]; next[r.Type]++ {
				m := content[r.Type][next[r.Type]]
				c.score += m.score
				c.picks = append(c.picks, pick{m.picks[0].edge, mark{m.count, true, m.label}})
				got += m.count
			}
		}
		into[jobspec.SlotType] = append(into[jobspec.SlotType], c)
	}
}
