package traverser

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/planner"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// moment writes a time of the plans; their end is no time.
func moment(at int64) time.Time {
	if at == planner.Forever {
		return time.Time{}
	}
	return time.Unix(0, at).UTC()
}

// allocation writes what a job holds.
func (t *Traverser) allocation(j *job) *match.Allocation {
	x := exporter{g: &t.g, paths: make(map[vid]string)}
	a := &match.Allocation{ID: j.id, Reserved: j.reserved, At: moment(j.at), End: moment(j.until)}
	a.R = &resource.Set{Start: a.At, Expiration: a.End, Queue: j.queue, Vertices: make([]resource.Share, len(j.emissions))}
	at := make(map[vid]int, len(j.emissions))
	for i := range j.emissions {
		e := &j.emissions[i]
		a.R.Vertices[i] = x.share(e)
		at[e.u] = i
	}
	a.Slots = make([]match.Slot, len(j.keys))
	for i := range a.Slots {
		a.Slots[i] = match.Slot{Key: j.keys[i], Label: j.labels[i], R: &resource.Set{Start: a.At, Expiration: a.End}}
	}
	t.fillSlots(j, a, at)
	return a
}

// fillSlots shares out the vertices of an allocation: each slot has its own, and
// after them all that they stand in.
func (t *Traverser) fillSlots(j *job, a *match.Allocation, at map[vid]int) {
	g := &t.g
	last := make([]int, len(j.emissions)) // slot + 1 by the index of the emission
	order := make([][]int, len(a.Slots))
	for i := range j.emissions {
		e := &j.emissions[i]
		if e.exclusive && e.slot >= 0 {
			order[e.slot] = append(order[e.slot], i)
		}
	}
	for s := range order {
		r := a.Slots[s].R
		for k, i := range order[s] {
			r.Vertices = append(r.Vertices, a.R.Vertices[i])
			next := vid(none)
			if k+1 < len(order[s]) {
				next = j.emissions[order[s][k+1]].u
			}
			for u := g.parent[j.emissions[i].u]; u != none; u = g.parent[u] {
				above := at[u]
				if last[above] == s+1 || next != none && g.under(next, u) {
					break
				}
				if own := &j.emissions[above]; own.exclusive && int(own.slot) == s {
					break // comes by itself
				}
				last[above] = s + 1
				way := a.R.Vertices[above]
				way.Exclusively = false
				r.Vertices = append(r.Vertices, way)
			}
		}
		a.Slots[s].Node = t.nodeOfAll(j, order[s])
	}
}

// nodeOfAll returns the name of the node that all of these stand on, or nothing.
func (t *Traverser) nodeOfAll(j *job, emissions []int) string {
	node := none
	for k, i := range emissions {
		n := t.g.nodeOf(j.emissions[i].u)
		if n == none || k > 0 && n != node {
			return ""
		}
		node = n
	}
	if node == none {
		return ""
	}
	return t.g.name(node)
}

// An exporter writes vertices.
type exporter struct {
	g *graph
	// paths has those of the vertices that others stand in.
	paths map[vid]string
}

// share writes a vertex of a result.
func (x *exporter) share(e *emission) resource.Share {
	g, u := x.g, e.u
	v := resource.Vertex{
		UniqID: g.uniq[u], Type: g.types[g.typ[u]], Basename: g.basename(u), Name: g.name(u),
		ID: g.id[u], Rank: g.rank[u], Size: g.size[u], Unit: g.units[u],
		Exclusive: g.exclusive[u], Properties: g.properties[u],
	}
	if g.flags[u]&isDown != 0 {
		v.Status = resource.Down
	}
	switch {
	case g.flags[u]&isOdd != 0:
		v.Paths = g.paths[u]
	case g.parent[u] == none:
		v.Paths = map[string]string{resource.Containment: "/" + v.Name}
	default:
		v.Paths = map[string]string{resource.Containment: x.path(g.parent[u]) + "/" + v.Name}
	}
	return resource.Share{Vertex: v, Amount: e.amount, Exclusively: e.exclusive, Label: e.label}
}

// path returns the path of a vertex that others stand in.
func (x *exporter) path(u vid) string {
	p, ok := x.paths[u]
	if !ok {
		p = x.g.path(u)
		x.paths[u] = p
	}
	return p
}
