package store

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/planner"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A nodeTimeline is what is held and reserved of the leaves of one node over time, by pool and
// leaf. It is computed when it is first used, and again after each change on the node.
type nodeTimeline [][]leafTimeline

// A leafTimeline is what is held and reserved of one leaf over time.
type leafTimeline struct {
	// taken has what is held, up to the end of each slot, and what is reserved.
	// reserved has only what is reserved.
	taken, reserved planner.Plan
	// shift makes amounts so small that their sum fits an int64. It is 0 except for leaves of an
	// enormous size. For those, what is free is rounded down.
	shift int
}

// makeTimeline makes the timeline of a host, if it has none. Invariant: the host's node is in the graph.
func (h *host) makeTimeline(reserved map[*Slot]struct{}) {
	if h.timeline != nil {
		return
	}
	o := make(nodeTimeline, len(h.node.pools))
	for k := range o {
		o[k] = make([]leafTimeline, len(h.node.pools[k].leaves))
		for l, v := range h.node.pools[k].leaves {
			slots := len(h.slots) - h.ignored + len(reserved) + 1
			o[k][l].shift = max(0, bits.Len64(uint64(v.res.Size))+bits.Len(uint(slots))-62)
		}
	}
	for s := range h.countedSlots() {
		for _, c := range s.charges {
			o.addHeld(h.node, c, endOf(s.end))
		}
	}
	order := slices.SortedFunc(maps.Keys(reserved), func(a, b *Slot) int {
		return cmp.Or(cmp.Compare(a.job, b.job), strings.Compare(a.key, b.key))
	})
	for _, named := range []bool{true, false} {
		for _, s := range order {
			o.addReserved(h.node, s, named)
		}
	}
	h.timeline = o
}

// addHeld adds a charge, up to its end.
func (o nodeTimeline) addHeld(n *node, c charge, end int64) {
	if end == math.MinInt64 {
		return
	}
	for l, v := range n.pools[c.pool].leaves {
		if v == c.leaf {
			f := &o[c.pool][l]
			f.taken.Add(math.MinInt64, end, f.scaled(c.amount, v.res.Size))
		}
	}
}

// addReserved adds the shares of a reserved slot. If named, it adds the shares whose path below the
// node finds a leaf. Otherwise it adds the other shares by type, on leaves with room for them.
func (o nodeTimeline) addReserved(n *node, s *Slot, named bool) {
	w := Window{start: Instant(s.start), end: endOf(s.end)}
	if w.end <= w.start {
		return
	}
	for _, h := range s.shares {
		if h.container || h.amount == 0 {
			continue
		}
		k, v := n.findLeaf(h.res.Type, pathBelow(h.res.Path, s.node))
		switch {
		case v != nil && named:
			for l, at := range n.pools[k].leaves {
				if at == v {
					o[k][l].reserve(w, h.amount, v.res.Size)
				}
			}
		case v == nil && !named:
			o.spreadReserved(n, w, h)
		}
	}
}

// spreadReserved adds a reserved share to the leaves of its type, as chargeByType does for a share
// that is held.
func (o nodeTimeline) spreadReserved(n *node, w Window, h share) {
	k := n.poolIndex(h.res.Type)
	if k < 0 {
		return
	}
	left := h.amount
	for l, v := range n.pools[k].leaves {
		f := &o[k][l]
		part := left
		if l+1 < len(n.pools[k].leaves) {
			part = min(left, f.free(w, v.res.Size))
		}
		if part > 0 {
			f.reserve(w, part, v.res.Size)
			left -= part
		}
	}
}

// scaled returns an amount in the timeline's scale, rounded up. An amount above the size of the
// leaf counts as the size.
func (f *leafTimeline) scaled(amount, size int64) int64 {
	amount = min(amount, size)
	n := amount >> f.shift
	if n<<f.shift < amount {
		n++
	}
	return n
}

// reserve adds an amount that is reserved.
func (f *leafTimeline) reserve(w Window, amount, size int64) {
	n := f.scaled(amount, size)
	f.taken.Add(w.start, w.end, n)
	f.reserved.Add(w.start, w.end, n)
}

// free returns what is free of a leaf of this size during a whole window, if what is held ends on
// time.
func (f *leafTimeline) free(w Window, size int64) int64 {
	return max(0, size>>f.shift-f.taken.Peak(w.start, w.end)) << f.shift
}

// freeIn returns what may be given out of a leaf for a window.
func (h *host) freeIn(w Window, k, l int) int64 {
	v, f := h.node.pools[k].leaves[l], &h.timeline[k][l]
	if v.res.Status != resource.Up {
		return 0
	}
	free := f.free(w, v.res.Size)
	if w.present {
		// An allocation past its end is still held.
		free = min(free, max(0, v.free()>>f.shift-f.reserved.At(w.start))<<f.shift)
	}
	return free
}

// holdLater sets what slots hold of each leaf beyond the start of a window, on a host where nothing is reserved. It
// returns which holders have slots there by then.
func (h *host) holdLater(w Window) (x solver.Exclusivity) {
	for k := range h.node.pools {
		for _, v := range h.node.pools[k].leaves {
			v.later = sum128{}
		}
	}
	for s := range h.countedSlots() {
		if !w.overlapsHeld(s) {
			continue
		}
		mergeHolder(&x, s)
		for i := range s.charges {
			s.charges[i].leaf.later.add(s.charges[i].amount)
		}
	}
	return x
}

// endsBetween reports whether a slot is held during one window and not any more during a later one.
func (h *host) endsBetween(from, to Window) bool {
	for s := range h.countedSlots() {
		if from.overlapsHeld(s) && !to.overlapsHeld(s) {
			return true
		}
	}
	return false
}

// exclusivityIn returns which holders have slots on the host within a window, held or reserved.
func (h *host) exclusivityIn(w Window, reserved map[*Slot]struct{}) solver.Exclusivity {
	var x solver.Exclusivity
	for s := range h.countedSlots() {
		if w.overlapsHeld(s) {
			mergeHolder(&x, s)
		}
	}
	for s := range reserved {
		if w.overlaps(s) {
			mergeHolder(&x, s)
		}
	}
	return x
}

// mergeHolder adds a slot to the exclusivity of a node. If there are several holders, only their
// presence is recorded, as two.
func mergeHolder(x *solver.Exclusivity, s *Slot) {
	switch {
	case s.onEveryNode:
	case s.holder == "":
		x.WithoutHolder++
	case x.Holders == 0:
		x.Holders, x.Holder = 1, s.holder
	case x.Holder != s.holder:
		x.Holders, x.Holder = 2, ""
	}
}
