package model

import (
	"cmp"
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
)

// explore visits the children of u for requests, and collects candidates. A policy that
// stops early stops when there are enough bundles for each request: as many as times.
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

// bundles returns how many shares of size n the whole candidates make, in their order.
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

// slots makes a candidate of each slot that can be filled at u with whole shares.
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
