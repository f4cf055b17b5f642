package store

import (
	"cmp"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/planner"
)

// Releases tell what would be free of each node over time if nothing were reserved. That only grows with time, and
// it is never less than what the view shows of the node in a window.
type Releases struct {
	view  *WindowView
	needs []solver.Need
	who   solver.Requester
	// free and pools have, by need, what is free on the node that is read, and the index of its pool; -1 for none.
	free  []int64
	pools []int
	// ends are the ends on that node.
	ends []release
}

// A release is what the end of a slot gives back.
type release struct {
	at   int64
	slot *Slot
}

// Releases returns what ends after the present, in the needs of one request. needs must have their columns.
func (v *WindowView) Releases(needs []solver.Need, who solver.Requester) *Releases {
	return &Releases{view: v, needs: needs, who: who, free: make([]int64, len(needs)), pools: make([]int, len(needs))}
}

// Read calls do with what is free on the node at a position after the present, and with what is free from the end of
// each slot on, in the order of time. It leaves out the times when others keep the requester from the node. It
// returns the number of slots there.
func (r *Releases) Read(at int32, do func(from int64, free []int64)) (slots int) {
	st, present := r.view.store, r.view.now.start
	n := st.graph.nodes[at]
	h, open := st.hosts.byName[n.name()], present
	r.ends = r.ends[:0]
	for s := range h.countedSlots() {
		// What is past its end counts as released.
		end := max(present, endOf(s.end))
		if r.keepsOut(s) {
			open = max(open, end)
		}
		if end < planner.Forever {
			r.ends = append(r.ends, release{end, s})
		}
	}
	if open == planner.Forever {
		return len(h.slots)
	}
	r.readHeld(n)
	slices.SortFunc(r.ends, func(a, b release) int { return cmp.Compare(a.at, b.at) })
	for t, left := present, r.ends; ; t = left[0].at {
		for len(left) > 0 && left[0].at <= t {
			r.end(left[0].slot)
			left = left[1:]
		}
		if t >= open {
			do(t, r.free)
		}
		if len(left) == 0 {
			return len(h.slots)
		}
	}
}

// keepsOut reports whether a slot keeps the requester from its node.
func (r *Releases) keepsOut(s *Slot) bool {
	var x solver.Exclusivity
	mergeHolder(&x, s)
	return x.Conflict(r.who) != solver.NoConflict
}

// readHeld reads what is free on a node now.
func (r *Releases) readHeld(n *node) {
	for k := range r.needs {
		r.free[k], r.pools[k] = 0, n.poolIndex(r.needs[k].Type)
		if r.pools[k] < 0 {
			continue
		}
		if c := n.pools[r.pools[k]].column; slices.Contains(r.needs[k].Columns, &c.Column) {
			r.free[k] = c.held[n.position]
		} else {
			r.pools[k] = -1
		}
	}
}

// end adds what the end of a slot gives back. On a leaf that has less than is held there, that is too much.
func (r *Releases) end(s *Slot) {
	for i := range s.charges {
		for k, pool := range r.pools {
			if pool == s.charges[i].pool {
				r.free[k] = solver.SatAdd(r.free[k], s.charges[i].amount)
			}
		}
	}
}
