package fluxion

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A shape is one slot request in units.
type shape struct {
	label string
	count jobspec.Count
	units map[string]int64
	need  []unitCount
	// always are the conditions that count for every verdict. now are the conditions that count
	// only for a match now.
	always, now []jobspec.Condition
}

// shape returns a slot request that the shadow has accepted.
func (p *attempt) shape(at int) *shape {
	if p.shapes[at] == nil {
		p.shapes[at] = p.readShape(at)
	}
	return p.shapes[at]
}

func (p *attempt) readShape(at int) *shape {
	r := &p.rounded.Resources[at]
	s := &shape{label: r.Label, count: r.Count, units: make(map[string]int64, len(r.With))}
	for _, w := range r.With {
		s.units[w.Type] = w.Count.Min / p.engine.granules.sizeOf(w.Type, w.Unit)
	}
	s.need = p.engine.granules.needs(s.units)
	system := &p.rounded.Attributes.System
	own := system.Fluence[r.Label]
	for _, c := range []*jobspec.Constraint{system.Constraints, own.Constraints} {
		s.always = appendCondition(s.always, c)
	}
	s.now = appendCondition(s.now, own.ConstraintsNow)
	return s
}

func appendCondition(to []jobspec.Condition, c *jobspec.Constraint) []jobspec.Condition {
	holds, err := c.Compile()
	if c == nil || err != nil { // The shadow accepts no constraint that fails.
		return to
	}
	return append(to, holds)
}

// allowed reports whether the library may place slots of a shape on a host: see suits.
func (p *attempt) allowed(s *shape, h *host, present bool) bool {
	return p.engine.isCurrent(h) && p.suits(s, h, present)
}

// needsLoad reports whether slots of the request may be on a host that is not in the library's graph.
func (p *attempt) needsLoad() bool {
	for _, h := range p.engine.hosts {
		if h.inGraph {
			continue
		}
		for at := range p.rounded.Resources {
			if p.suits(p.shape(at), h, true) {
				return true
			}
		}
	}
	return false
}

// suits reports whether slots of a shape may be on a host: at any time or, with present, now.
// A host that lacks one of the types is excluded, because Fluxion 0.39 fails on it.
func (p *attempt) suits(s *shape, h *host, present bool) bool {
	n := h.node
	if n == nil || !covers(n.units, s.units) || !holds(s.always, h) {
		return false
	}
	if !present {
		return true
	}
	whole := match.IsExclusive(p.request.Policy)
	return p.engine.usable(n) && h.allowsHolder(p.request.Holder, whole) && holds(s.now, h)
}

func holds(all []jobspec.Condition, h *host) bool {
	for _, c := range all {
		if !c(h.name, h.node.rank, h.node.properties) {
			return false
		}
	}
	return true
}

// hostsWhere returns the hosts for which may is true, as a hostlist. ""
// means all hosts of the library's graph. some is false if there is none.
func (e *Engine) hostsWhere(may func(*host) bool) (list string, some bool) {
	var numbers []int64
	for _, h := range e.hosts {
		if may(h) {
			numbers = append(numbers, h.node.number)
		}
	}
	if e.session != nil && len(numbers) == e.session.nodes {
		return "", len(numbers) > 0
	}
	slices.Sort(numbers)
	return hostlist(numbers), len(numbers) > 0
}
