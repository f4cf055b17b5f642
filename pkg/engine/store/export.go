package store

import (
	"cmp"
	"maps"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// An exporter converts one answer. The answer has copies of the store's vertices. Shares of one
// vertex have the same copy of its maps.
type exporter map[*resource.Vertex]resource.Vertex

// Allocation converts a job to the answer to its request.
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

// slot converts a slot.
func (x exporter) slot(s *Slot) match.Slot {
	r := &resource.Set{Start: s.start, Expiration: s.end, Vertices: make([]resource.Share, len(s.shares))}
	for i, h := range s.shares {
		r.Vertices[i] = x.share(h)
	}
	return match.Slot{Key: s.key, Label: s.label, Node: s.node, R: r, Holder: s.holder, Shared: s.onEveryNode}
}

// total returns the sum of a job's slots: the shares of each node, then the vertices above the
// nodes.
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

// appendMerged appends the sum of the slots on one node, each vertex once: first the pools, then
// the vertices that contain pools, the deepest first.
func appendMerged(to []share, slots []*Slot) []share {
	from := len(to)
	for _, s := range slots {
		for _, h := range s.shares {
			if !h.container {
				to = merge(to, from, h)
			}
		}
	}
	containersFrom := len(to)
	for _, s := range slots {
		for _, h := range s.shares {
			if h.container {
				to = merge(to, containersFrom, h)
			}
		}
	}
	slices.SortStableFunc(to[containersFrom:], func(x, y share) int {
		// The path of a vertex begins with the path of its container, so a container's path is shorter.
		return cmp.Compare(len(y.res.Path), len(x.res.Path))
	})
	return to
}

// merge adds a share to the shares from an index on.
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

// sameVertex reports whether two descriptions, both from the same node, are of one vertex.
func sameVertex(a, b *resource.Vertex) bool {
	return a == b || a.Type == b.Type && a.Path == b.Path
}

// share converts a share.
func (x exporter) share(h share) resource.Share {
	v, ok := x[h.res]
	if !ok {
		v = cloneVertex(h.res)
		x[h.res] = v
	}
	return resource.Share{Vertex: v, Amount: h.amount}
}

// cloneVertex copies a vertex and its maps, so that a caller cannot change the original.
func cloneVertex(v *resource.Vertex) resource.Vertex {
	c := *v
	c.Properties = maps.Clone(v.Properties)
	c.Paths = maps.Clone(v.Paths)
	return c
}
