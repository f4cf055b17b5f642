package traverser

import (
	"errors"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// refuse returns the reason why a request does not
// fit now: either because of other jobs, or for good.
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

// unknown returns a refusal because no time was found within the budget.
func (t *Traverser) unknown(q *ask, r *match.Request, now int64) error {
	err := t.busy(q, r, now)
	if refusal, ok := errors.AsType[*match.Refusal](err); ok {
		refusal.Reason.Code = match.NotFound
	}
	return err
}

// fewNodes reports whether more nodes are asked for than can be used even in the
// long run. Fluxion checks this first if there is a constraint or nodes are tracked.
// For operations that may reserve, it then answers busy, and never unsatisfiable.
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
		if g.flags[n]&isDown != 0 { // as in Fluxion, which checks only the node itself here
			continue
		}
		up++
		if q.holds == nil || q.holds(g.name(n), g.rank[n], g.properties[n]) {
			usable++
		}
	}
	return wanted > min(up, usable)
}

// tracksNodes reports whether a filter counts nodes anywhere.
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

// busy returns the refusal of a request that does not fit at present.
func (t *Traverser) busy(q *ask, r *match.Request, now int64) error {
	if _, err := t.try(q, r, now, now, false); err != nil {
		return err
	}
	reason := t.reason(q)
	reason.WaitingHelps = true
	return &match.Refusal{Err: match.ErrBusy, Reason: reason}
}

// never returns the refusal of a request that does not fit even in
// the empty graph. The last attempt must have been an empty one.
func (t *Traverser) never(q *ask) error {
	reason := t.reason(q)
	if reason.Code == match.TooFew && reason.Found == 0 && len(reason.Shortages) > 0 {
		reason.Code = match.TooLarge
	}
	return &match.Refusal{Err: match.ErrUnsatisfiable, Reason: reason}
}

// reason returns the numbers that explain why the last attempt failed.
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

// countNodes counts the nodes in reason. It returns the nodes that may be used.
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

// down reports whether a vertex, or a vertex above it, is down.
func (g *graph) down(u vid) bool {
	for ; u != none; u = g.parent[u] {
		if g.flags[u]&isDown != 0 {
			return true
		}
	}
	return false
}

// shortage returns how much of a type the nodes have. short reports whether a node
// has less than needed. If there are no nodes, the whole graph counts as one node.
func (t *Traverser) shortage(need sum, nodes []vid) (s match.Shortage, short bool) {
	s = match.Shortage{Type: t.g.types[need.typ], Wanted: need.amount}
	if len(nodes) == 0 {
		nodes = []vid{t.g.root}
	}
	for _, n := range nodes {
		if free := t.attempt.amount(n, need.typ); free < need.amount {
			s.MaxOnNode = max(s.MaxOnNode, free)
			s.Nodes++
		}
	}
	return s, s.Nodes > 0
}

// amount returns how much of a type is free at u and below.
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
