package store

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Grant is a solver's placement and the job that gets it.
type Grant struct {
	ID match.JobID
	// Keys has one key for each slot, shape after shape, as if every shape had its maximum number of
	// slots. Without keys, the slots are numbered.
	Keys []string
	// Holder gets the nodes as a whole. It is empty if the nodes are not given out whole.
	Holder string
	// Start is when the job gets the slots.
	Start time.Time
	// Duration is how long the job has the slots. Zero means that the end is not known.
	Duration time.Duration
	Problem  *solver.Problem
	// Runs are the slots by shape and node. A node is given by its position.
	Runs []solver.Run
	// View is the view in which the placement was found. Nil means the empty graph.
	View *WindowView
}

// Allocate returns a job that has the slots of a grant. It books nothing.
func (st *Store) Allocate(g *Grant) *Job {
	total := int64(0)
	for _, x := range g.Runs {
		total += x.Count
	}
	j := &Job{id: g.ID, slots: make(map[string]*Slot, total), start: g.Start}
	if g.Duration > 0 {
		j.end = g.Start.Add(g.Duration)
	}
	d := leafPicker{view: g.View}
	slots, inOrder := make([]Slot, 0, total), make([]*Slot, 0, total)
	nth, last := int64(0), -1
	for _, x := range g.Runs {
		shape, n := &g.Problem.Shapes[x.Shape], st.graph.nodes[x.Node]
		if x.Shape != last {
			nth, last = solver.Offset(g.Problem.Shapes, x.Shape), x.Shape
		}
		for range x.Count {
			key := strconv.Itoa(len(slots))
			if len(g.Keys) > 0 {
				key = g.Keys[nth]
			}
			nth++
			slots = append(slots, Slot{
				job: j.id, key: key, label: shape.Label, node: n.name(),
				index: len(slots), start: j.start, end: j.end, holder: g.Holder,
			})
			s := &slots[len(slots)-1]
			d.fillSlot(s, n, g.Problem.Needs, shape)
			j.slots[key], inOrder = s, append(inOrder, s)
		}
	}
	j.ancestors = st.hosts.ancestors(inOrder)
	return j
}

// A leafPicker distributes the slots of one grant over the leaves of pools.
type leafPicker struct {
	// view is the view in which the placement was found. Nil means the empty graph.
	view *WindowView
	// left is what is left of each leaf, for pools with several leaves.
	left map[*vertex]int64
}

// fillSlot sets the charges and the shares of a slot on its node.
func (d *leafPicker) fillSlot(s *Slot, n *node, needs []solver.Need, want *solver.Shape) {
	s.charges = make([]charge, 0, len(want.NeedsInOrder))
	for _, k := range want.NeedsInOrder {
		at := n.poolIndex(needs[k].Type)
		s.charges = d.pick(s.charges, n, at, want.AmountPerSlot[k])
	}
	s.shares = make([]share, 0, len(s.charges)+1)
	for _, c := range s.charges {
		s.shares = append(s.shares, share{res: c.leaf.res, amount: c.amount})
	}
	for depth := s.maxDepth(); depth > n.vertex.depth; depth-- {
		s.addContainers(n, depth)
	}
	s.shares = append(s.shares, share{res: n.vertex.res, amount: 1, container: true})
}

// pick takes an amount from the leaves of a pool, first fit: as much as possible from each leaf
// before the next.
func (d *leafPicker) pick(charges []charge, n *node, at int, amount int64) []charge {
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
		case d.view == nil:
			left = v.permanent.remaining(v.res.Size)
		default:
			left = d.view.free(n, at, l)
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

// maxDepth returns the depth of the deepest vertex that contains a leaf of the slot.
func (s *Slot) maxDepth() int {
	depth := 0
	for _, c := range s.charges {
		depth = max(depth, c.leaf.depth-1)
	}
	return depth
}

// addContainers adds the vertices of one depth between the node and the leaves of the slot.
func (s *Slot) addContainers(n *node, depth int) {
	for _, c := range s.charges {
		for v := c.leaf.parent; v != n.vertex; v = v.parent {
			if v.depth == depth && !slices.ContainsFunc(s.shares, func(h share) bool { return h.res == v.res }) {
				s.shares = append(s.shares, share{res: v.res, amount: 1, container: true})
			}
		}
	}
}

// ancestors returns the vertices above the nodes of these slots, each vertex once and the deepest
// first.
func (a *hosts) ancestors(slots []*Slot) []*resource.Vertex {
	var found []*vertex
	seen := make(map[*vertex]bool)
	for _, s := range slots {
		h := a.byName[s.node]
		if h == nil || h.node == nil {
			continue
		}
		for v := h.node.vertex.parent; v != nil && !seen[v]; v = v.parent {
			seen[v] = true
			found = append(found, v)
		}
	}
	slices.SortStableFunc(found, func(a, b *vertex) int { return cmp.Compare(b.depth, a.depth) })
	above := make([]*resource.Vertex, len(found))
	for i, v := range found {
		above[i] = v.res
	}
	return above
}

// slotsInOrder returns the slots of a job in the order in which they were given out.
func (j *Job) slotsInOrder() []*Slot {
	slots := make([]*Slot, 0, len(j.slots))
	for _, s := range j.slots {
		slots = append(slots, s)
	}
	slices.SortFunc(slots, func(a, b *Slot) int { return cmp.Compare(a.index, b.index) })
	return slots
}
