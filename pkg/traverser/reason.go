package traverser

import (
	"errors"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// refuse returns why a request finds no room now: because of others, or for good.
func (t *Traverser) refuse(q *ask, r *match.Request, now int64) error {
	j, err := t.try(q, r, now, now, true)
	switch {
	case err != nil:
		return err
	case j == nil:
		return t.never(q)
	}
	return t.busy(q, r, now)
}

// unknown returns that no time was found within the budget.
func (t *Traverser) unknown(q *ask, r *match.Request, now int64) error {
	err := t.busy(q, r, now)
	if refusal, ok := errors.AsType[*match.Refusal](err); ok {
		refusal.Reason.Code = match.NotFound
	}
	return err
}

// fewNodes says whether fewer nodes can be used in the long run than are asked
// for. Fluxion looks at that first where there is a constraint or nodes are
// tracked, and where it could reserve answers busy then, never unsatisfiable.
func (t *Traverser) fewNodes(q *ask) bool {
	g := &t.g
	if q.holds == nil && !t.tracksNodes() {
		return false
	}
	wanted, up, usable := int64(0), int64(0), int64(0)
	for _, s := range q.least {
		if s.typ == typeNode {
			wanted = s.amount
		}
	}
	for _, n := range g.nodes {
		if g.flags[n]&isDown != 0 { // as Fluxion, which looks at the node alone here
			continue
		}
		up++
		if q.holds == nil || q.holds(g.name(n), g.rank[n], g.properties[n]) {
			usable++
		}
	}
	return wanted > min(up, usable)
}

// tracksNodes says whether a filter counts nodes anywhere.
func (t *Traverser) tracksNodes() bool {
	if slices.Contains(t.filters.everywhere, resource.TypeNode) {
		return true
	}
	for _, low := range t.filters.at {
		if slices.Contains(low, resource.TypeNode) {
			return true
		}
	}
	return slices.ContainsFunc(t.g.nodes, func(n vid) bool { return t.g.inside[n] < 0 })
}

// busy returns why a request finds no room for the present.
func (t *Traverser) busy(q *ask, r *match.Request, now int64) error {
	if _, err := t.try(q, r, now, now, false); err != nil {
		return err
	}
	reason := t.reason(q)
	reason.WaitingHelps = true
	return &match.Refusal{Err: match.ErrBusy, Reason: reason}
}

// never returns why a request would find no room in the empty graph, which the
// last attempt was made in.
func (t *Traverser) never(q *ask) error {
	reason := t.reason(q)
	if reason.Code == match.TooFew && reason.Found == 0 && len(reason.Shortages) > 0 {
		reason.Code = match.TooLarge
	}
	return &match.Refusal{Err: match.ErrUnsatisfiable, Reason: reason}
}

// reason puts into numbers why the last attempt found no room.
func (t *Traverser) reason(q *ask) match.Reason {
	g, a := &t.g, &t.attempt
	reason := match.Reason{Code: match.TooFew, Level: g.types[g.typ[g.root]], Vertex: g.name(g.root)}
	var failed *request
	for i := range q.top.list {
		r := &q.top.list[i]
		found := a.frames[0].sum(r.typ)
		if failed == nil || r.count.Floor(found) == 0 && failed.count.Floor(reason.Found) > 0 {
			failed = r
			reason.Wanted, reason.Found = r.count.Min, found
		}
	}
	reason.Slot = failed.firstLabel()
	if reason.Slot == "" {
		reason.Slot = g.types[failed.typ]
	}
	need := failed.below
	if failed.typ != typeSlot && len(need) == 0 {
		need = []sum{{failed.typ, failed.count.Min}}
	}
	usable := t.countNodes(&reason)
	if reason.Nodes > 0 && len(usable) == 0 {
		reason.Code = match.NoNode
		return reason
	}
	for _, n := range need {
		if s, short := t.shortage(n, usable); short {
			reason.Shortages = append(reason.Shortages, s)
		}
	}
	return reason
}

// countNodes counts the nodes, and returns those that may be used.
func (t *Traverser) countNodes(reason *match.Reason) []vid {
	g, a := &t.g, &t.attempt
	usable := make([]vid, 0, len(g.nodes))
	for _, n := range g.nodes {
		reason.Nodes++
		switch {
		case !a.empty && g.down(n):
			reason.Down++
		case a.holds != nil && !a.holds(g.name(n), g.rank[n], g.properties[n]):
			reason.Excluded++
		default:
			usable = append(usable, n)
		}
	}
	return usable
}

// down says whether a vertex, or one that it stands in, is down.
func (g *graph) down(u vid) bool {
	for ; u != none; u = g.parent[u] {
		if g.flags[u]&isDown != 0 {
			return true
		}
	}
	return false
}

// shortage says how much nodes have of a type, if there is one that has less than
// is needed. Where there is no node the whole graph counts as one.
func (t *Traverser) shortage(need sum, nodes []vid) (s match.Shortage, short bool) {
	s = match.Shortage{Type: t.g.types[need.typ], Wanted: need.amount}
	if len(nodes) == 0 {
		nodes = []vid{t.g.root}
	}
	for _, n := range nodes {
		free := t.attempt.amount(n, need.typ)
		s.MaxFree = max(s.MaxFree, free)
		if free < need.amount {
			s.Nodes++
		}
	}
	return s, s.Nodes > 0
}

// amount returns how much is free of a type at u and below.
func (a *attempt) amount(u vid, typ typeID) int64 {
	g, n := a.g, int64(0)
	if g.flags[u]&isDown != 0 && !a.empty {
		return 0
	}
	if typeID(g.typ[u]) == typ {
		n = g.size[u]
		if !a.empty && g.flags[u]&isBooked != 0 {
			n = max(0, n-g.plans[u].Peak(a.start, a.end))
		}
	}
	in := g.in(u)
	if in == nil {
		return n
	}
	if in.touched == 0 {
		for _, t := range in.leaves {
			if t.typ == typ {
				n += t.sum
			}
		}
		return n
	}
	for _, c := range in.children {
		if typeID(g.typ[c]) == typ || g.inside[c] >= 0 {
			n += a.amount(c, typ)
		}
	}
	return n
}

// firstLabel returns the label of the first slot of a request.
func (r *request) firstLabel() string {
	if r.typ == typeSlot {
		return r.label
	}
	for i := range r.with.list {
		if l := r.with.list[i].firstLabel(); l != "" {
			return l
		}
	}
	return ""
}
