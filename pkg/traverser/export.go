package traverser

import (
	"maps"
	"strings"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/planner"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// moment returns a time of the plans. It returns a zero time for planner.Forever.
func moment(at int64) time.Time {
	if at == planner.Forever {
		return time.Time{}
	}
	return time.Unix(0, at).UTC()
}

// allocation returns the allocation of a job. A slot has the
// vertices that it holds, but not the vertices above them.
func (t *Traverser) allocation(j *job) *match.Allocation {
	a := &match.Allocation{ID: j.id, Reserved: j.reserved, Start: moment(j.at), End: moment(j.until)}
	a.R = &resource.Set{Start: a.Start, Expiration: a.End, Queue: j.queue, Vertices: t.g.shares(j.emissions)}
	for i := range a.R.Vertices {
		if label, ok := j.given[j.emissions[i].u]; ok {
			a.R.Vertices[i].Label = label
		}
	}
	a.Slots = make([]match.Slot, len(j.keys))
	sets := make([]resource.Set, len(j.keys))
	for i := range a.Slots {
		sets[i] = resource.Set{Start: a.Start, Expiration: a.End}
		a.Slots[i] = match.Slot{Key: j.keys[i], Label: j.labels[i], R: &sets[i]}
	}
	t.fillSlots(j, a)
	return a
}

// fillSlots divides the vertices of an allocation among its slots. The vertices of
// one slot are mostly consecutive, and the slot then shares the allocation's slice.
func (t *Traverser) fillSlots(j *job, a *match.Allocation) {
	nodes := make([]vid, len(a.Slots))
	all := a.R.Vertices
	for i := 0; i < len(all); {
		e := &j.emissions[i]
		if !e.exclusive || e.slot < 0 {
			i++
			continue
		}
		last := i + 1
		for last < len(all) && j.emissions[last].exclusive && j.emissions[last].slot == e.slot {
			last++
		}
		slot := &a.Slots[e.slot]
		first := len(slot.R.Vertices) == 0
		if first {
			slot.R.Vertices = all[i:last:last]
		} else {
			slot.R.Vertices = append(slot.R.Vertices, all[i:last]...)
		}
		for k := i; k < last; k++ {
			n := t.g.nodeOf(j.emissions[k].u)
			if first && k == i {
				nodes[e.slot] = n
			} else if n != nodes[e.slot] {
				nodes[e.slot] = none
			}
		}
		i = last
	}
	for s, n := range nodes {
		if n != none && len(a.Slots[s].R.Vertices) > 0 {
			a.Slots[s].Node = t.g.name(n)
		}
	}
}

// shares returns the vertices of a result.
func (g *graph) shares(of []emission) []resource.Share {
	list := make([]resource.Share, len(of))
	for i := range of {
		g.share(&list[i], &of[i])
	}
	return list
}

// share sets s to a vertex of a result.
func (g *graph) share(s *resource.Share, e *emission) {
	u := e.u
	path := g.composed(u)
	s.UniqID, s.ID, s.Rank, s.Size = g.uniq[u], g.id[u], g.rank[u], g.size[u]
	s.Type = g.types[g.typ[u]]
	s.Basename, s.Name = s.Type, path[strings.LastIndexByte(path, '/')+1:]
	s.Amount, s.Exclusively = e.amount, e.exclusive
	if len(g.basenames) > 0 {
		s.Basename = g.basename(u)
	}
	if len(g.names) > 0 {
		s.Name = g.name(u)
	}
	if len(g.units) > 0 {
		s.Unit = g.units[u]
	}
	if len(g.exclusive) > 0 {
		s.Exclusive = g.exclusive[u]
	}
	if len(g.properties) > 0 {
		s.Properties = maps.Clone(g.properties[u])
	}
	if len(g.labels) > 0 {
		s.Label = g.labels[u]
	}
	if g.flags[u]&isDown != 0 {
		s.Status = resource.Down
	}
	if s.Path = path; g.flags[u]&isOdd != 0 {
		s.Path, s.Name = g.odd[u], g.name(u)
	}
	if len(g.paths) > 0 {
		s.Paths = maps.Clone(g.paths[u])
	}
}
