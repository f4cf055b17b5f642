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

// An outlook is what is held and promised of the leaves of one node over time. It
// is made when it is first asked for, and anew after anything there changed.
type nodeTimeline [][]leafTimeline // by pool and leaf

// A forecast is of one leaf.
type leafTimeline struct {
	// taken is what is held, each slot up to its end, and what is promised.
	taken, reserved planner.Plan
	// shift makes amounts small enough for their sum to stay within an int64. It
	// is 0 but for leaves of an enormous size; then what is free is rounded down.
	shift int
}

// makeTimeline returns the outlook of a host, whose node has to be in the graph.
func (h *host) makeTimeline(promised map[*Slot]struct{}) nodeTimeline {
	if h.timeline != nil {
		return h.timeline
	}
	o := make(nodeTimeline, len(h.node.pools))
	for k := range o {
		o[k] = make([]leafTimeline, len(h.node.pools[k].leaves))
		for l, v := range h.node.pools[k].leaves {
			slots := len(h.slots) - h.ignored + len(promised) + 1
			o[k][l].shift = max(0, bits.Len64(uint64(v.res.Size))+bits.Len(uint(slots))-62)
		}
	}
	for s := range h.countedSlots() {
		for _, c := range s.charges {
			o.addHeld(h.node, c, endOf(s.end))
		}
	}
	order := slices.SortedFunc(maps.Keys(promised), func(a, b *Slot) int {
		return cmp.Or(cmp.Compare(a.job, b.job), strings.Compare(a.key, b.key))
	})
	for _, named := range []bool{true, false} {
		for _, s := range order {
			o.addReserved(h.node, s, named)
		}
	}
	h.timeline = o
	return o
}

// addHeld counts a charge up to its end.
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

// addReserved counts what a slot is promised: with named the shares whose leaf is
// found by its path below the node; without, the others by their type, where
// there is room for them.
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

// spreadReserved counts a promised share on the leaves of its type, as spread of a node
// does for one that is held.
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

// scaled returns an amount as the forecast counts it. More than the size of the
// leaf is no more than that.
func (f *leafTimeline) scaled(amount, size int64) int64 {
	amount = min(amount, size)
	n := amount >> f.shift
	if n<<f.shift < amount {
		n++
	}
	return n
}

// reserve counts an amount as promised.
func (f *leafTimeline) reserve(w Window, amount, size int64) {
	n := f.scaled(amount, size)
	f.taken.Add(w.start, w.end, n)
	f.reserved.Add(w.start, w.end, n)
}

// free returns what of a leaf of this size is left all through a window, going by
// the ends of what is held.
func (f *leafTimeline) free(w Window, size int64) int64 {
	return max(0, size>>f.shift-f.taken.Peak(w.start, w.end)) << f.shift
}

// freeIn returns what of a leaf may be given out for a window.
func (h *host) freeIn(w Window, k, l int) int64 {
	v, f := h.node.pools[k].leaves[l], &h.timeline[k][l]
	if v.res.Status != resource.Up {
		return 0
	}
	free := f.free(w, v.res.Size)
	if w.present {
		// What is past its end is held all the same.
		free = min(free, max(0, v.free()>>f.shift-f.reserved.At(w.start))<<f.shift)
	}
	return free
}

// exclusivityIn says who holds slots on the host within a window, or is promised
// some.
func (h *host) exclusivityIn(w Window, promised map[*Slot]struct{}) solver.Exclusivity {
	var x solver.Exclusivity
	for s := range h.countedSlots() {
		if w.overlapsHeld(s) {
			mergeHolder(&x, s)
		}
	}
	for s := range promised {
		if w.overlaps(s) {
			mergeHolder(&x, s)
		}
	}
	return x
}

// mergeHolder counts a slot among those of a node. Of several holders it only says that
// there are several.
func mergeHolder(x *solver.Exclusivity, s *Slot) {
	switch {
	case s.shared:
	case s.holder == "":
		x.WithoutHolder++
	case x.Holders == 0:
		x.Holders, x.Holder = 1, s.holder
	case x.Holder != s.holder:
		x.Holders, x.Holder = 2, ""
	}
}
