package engine

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A drawing hands out the leaves of pools to the slots of one request.
type drawing struct {
	empty bool // as if nobody held anything
	// over is what the attempt looks at; nil where that is the empty graph.
	over *horizon
	// left is what remains of the leaves of pools that have several.
	left map[*vertex]int64
}

// draw makes the job that holds what is laid out on a board, from the given time
// on. It books nothing.
func (e *Engine) draw(r *match.Request, b *board, over *horizon, at time.Time) *job {
	slices.SortStableFunc(b.runs, func(x, y run) int { return cmp.Compare(x.shape, y.shape) })
	e.space.runs = b.runs
	total := int64(0)
	for _, x := range b.runs {
		total += x.count
	}
	j := &job{id: r.ID, slots: make(map[string]*slot, total), at: at}
	if r.Duration > 0 {
		j.end = at.Add(r.Duration)
	}
	holder := ""
	if b.tenant.whole {
		holder = b.tenant.holder
	}
	d := drawing{empty: b.view.empty, over: over}
	slots := make([]slot, 0, total)
	nth, last := int64(0), -1
	for _, x := range b.runs {
		if x.shape != last {
			nth, last = b.ask.offset(x.shape), x.shape
		}
		for range x.count {
			key := strconv.Itoa(len(slots))
			if len(r.Keys) > 0 {
				key = r.Keys[nth]
			}
			nth++
			slots = append(slots, slot{
				job: j.id, key: key, label: b.ask.shapes[x.shape].label, node: b.node(x.node).name(),
				index: len(slots), start: j.at, end: j.end, holder: holder,
			})
			s := &slots[len(slots)-1]
			d.fill(s, b.node(x.node), b.ask, x.shape)
			j.slots[key] = s
		}
	}
	j.above = e.above(j.given())
	return j
}

// fill gives a slot its share of a node.
func (d *drawing) fill(s *slot, n *node, a *ask, shape int) {
	want := &a.shapes[shape]
	s.charges = make([]charge, 0, len(want.with))
	for _, k := range want.with {
		at := n.find(a.needs[k].kind)
		s.charges = d.take(s.charges, n, at, want.each[k])
	}
	s.shares = make([]share, 0, len(s.charges)+1)
	for _, c := range s.charges {
		s.shares = append(s.shares, share{about: c.leaf.about, amount: c.amount})
	}
	for depth := s.deepest(); depth > n.at.depth; depth-- {
		s.pass(n, depth)
	}
	s.shares = append(s.shares, share{about: n.at.about, amount: 1, way: true})
}

// take draws an amount from the leaves of a pool, from the first as much as it
// has.
func (d *drawing) take(charges []charge, n *node, at int, amount int64) []charge {
	leaves := n.pools[at].leaves
	if len(leaves) == 1 {
		return append(charges, charge{pool: at, leaf: leaves[0], amount: amount})
	}
	if d.left == nil {
		d.left = make(map[*vertex]int64)
	}
	for l, v := range leaves {
		left, ok := d.left[v]
		switch {
		case ok:
		case d.empty:
			left = v.stays.leaves(v.about.Size)
		default:
			left = d.over.free(n, at, l)
		}
		part := min(left, amount)
		if part > 0 {
			charges = append(charges, charge{pool: at, leaf: v, amount: part})
		}
		d.left[v] = left - part
		amount -= part
	}
	return charges
}

// deepest returns the depth of the deepest vertex that contains a leaf of the
// slot.
func (s *slot) deepest() int {
	depth := 0
	for _, c := range s.charges {
		depth = max(depth, c.leaf.depth-1)
	}
	return depth
}

// pass adds the vertices of one depth that stand between the node and leaves of
// the slot.
func (s *slot) pass(n *node, depth int) {
	for _, c := range s.charges {
		for v := c.leaf.parent; v != n.at; v = v.parent {
			if v.depth == depth && !slices.ContainsFunc(s.shares, func(h share) bool { return h.about == v.about }) {
				s.shares = append(s.shares, share{about: v.about, amount: 1, way: true})
			}
		}
	}
}

// above returns what the nodes of these slots stand in, each vertex once and
// after what it contains.
func (e *Engine) above(slots []*slot) []*resource.Vertex {
	var found []*vertex
	seen := make(map[*vertex]bool)
	for _, s := range slots {
		h := e.hosts[s.node]
		if h == nil || h.node == nil {
			continue
		}
		for v := h.node.at.parent; v != nil && !seen[v]; v = v.parent {
			seen[v] = true
			found = append(found, v)
		}
	}
	slices.SortStableFunc(found, func(a, b *vertex) int { return cmp.Compare(b.depth, a.depth) })
	above := make([]*resource.Vertex, len(found))
	for i, v := range found {
		above[i] = v.about
	}
	return above
}

// given returns the slots of a job in the order in which they were given out.
func (j *job) given() []*slot {
	slots := make([]*slot, 0, len(j.slots))
	for _, s := range j.slots {
		slots = append(slots, s)
	}
	slices.SortFunc(slots, func(a, b *slot) int { return cmp.Compare(a.index, b.index) })
	return slots
}
