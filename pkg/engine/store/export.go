package store

import (
	"cmp"
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// An exporter writes out one answer. Nothing in it is the engine's own; shares
// of one vertex have its maps in common.
type exporter map[*resource.Vertex]resource.Vertex

// Allocation writes out what a job was given.
func (j *Job) Allocation() *match.Allocation {
	slots := j.slotsInOrder()
	x := make(exporter, len(slots))
	a := &match.Allocation{
		ID: j.id, Reserved: j.reserved, Start: j.start, End: j.end,
		Slots: make([]match.Slot, len(slots)),
	}
	for i, s := range slots {
		a.Slots[i] = x.slot(s)
	}
	a.R = x.total(j, slots)
	return a
}

// slot writes out what a slot holds.
func (x exporter) slot(s *Slot) match.Slot {
	r := &resource.Set{Start: s.start, Expiration: s.end, Vertices: make([]resource.Share, len(s.shares))}
	for i, h := range s.shares {
		r.Vertices[i] = x.share(h)
	}
	return match.Slot{Key: s.key, Label: s.label, Node: s.node, R: r, Holder: s.holder, Shared: s.shared}
}

// total adds up what the slots of a job hold: node by node, then what the nodes
// stand in.
func (x exporter) total(j *Job, slots []*Slot) *resource.Set {
	byNode := make(map[string][]*Slot)
	var order []string
	for _, s := range slots {
		if byNode[s.node] == nil {
			order = append(order, s.node)
		}
		byNode[s.node] = append(byNode[s.node], s)
	}
	shares := make([]share, 0, 4*len(order)+len(j.ancestors))
	for _, name := range order {
		shares = appendMerged(shares, byNode[name])
	}
	for _, v := range j.ancestors {
		shares = append(shares, share{res: v, amount: 1})
	}
	r := &resource.Set{Start: j.start, Expiration: j.end, Vertices: make([]resource.Share, len(shares))}
	for i, h := range shares {
		r.Vertices[i] = x.share(h)
	}
	return r
}

// appendMerged adds up what slots on one node hold, each vertex once: first
// pools, then what these stand in, the deepest first.
func appendMerged(to []share, slots []*Slot) []share {
	from := len(to)
	for _, s := range slots {
		for _, h := range s.shares {
			if !h.container {
				to = merge(to, from, h)
			}
		}
	}
	way := len(to)
	for _, s := range slots {
		for _, h := range s.shares {
			if h.container {
				to = merge(to, way, h)
			}
		}
	}
	slices.SortStableFunc(to[way:], func(x, y share) int {
		// The path of what contains a vertex is the beginning of its own.
		return cmp.Compare(len(y.res.Path), len(x.res.Path))
	})
	return to
}

// merge adds a share to those from an index on.
func merge(to []share, from int, h share) []share {
	for i := from; i < len(to); i++ {
		if !sameVertex(to[i].res, h.res) {
			continue
		}
		if !h.container {
			to[i].amount = solver.SatAdd(to[i].amount, h.amount)
		}
		return to
	}
	return append(to, h)
}

// sameVertex says whether two descriptions are of one vertex, of the same node.
func sameVertex(a, b *resource.Vertex) bool {
	return a == b || a.Type == b.Type && a.Path == b.Path
}

// share writes out a share.
func (x exporter) share(h share) resource.Share {
	v, ok := x[h.res]
	if !ok {
		v = cloneVertex(h.res)
		x[h.res] = v
	}
	return resource.Share{Vertex: v, Amount: h.amount}
}

// cloneVertex copies a vertex with its maps, so that nobody can change it from
// outside.
func cloneVertex(v *resource.Vertex) resource.Vertex {
	c := *v
	c.Properties = maps.Clone(v.Properties)
	c.Paths = maps.Clone(v.Paths)
	return c
}
