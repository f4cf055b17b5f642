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
type outlook [][]forecast // by pool and leaf

// A forecast is of one leaf.
type forecast struct {
	// all is what is held, each slot up to its end, and what is promised.
	all, promised planner.Plan
	// shift makes amounts small enough for their sum to stay within an int64. It
	// is 0 but for leaves of an enormous size; then what is free is rounded down.
	shift int
}

// foresee returns the outlook of a host, whose node has to be in the graph.
func (h *host) foresee(promised map[*Slot]struct{}) outlook {
	if h.outlook != nil {
		return h.outlook
	}
	o := make(outlook, len(h.node.pools))
	for k := range o {
		o[k] = make([]forecast, len(h.node.pools[k].leaves))
		for l, v := range h.node.pools[k].leaves {
			slots := len(h.slots) - h.ignored + len(promised) + 1
			o[k][l].shift = max(0, bits.Len64(uint64(v.about.Size))+bits.Len(uint(slots))-62)
		}
	}
	for s := range h.heeded() {
		for _, c := range s.charges {
			o.hold(h.node, c, endOf(s.end))
		}
	}
	order := slices.SortedFunc(maps.Keys(promised), func(a, b *Slot) int {
		return cmp.Or(cmp.Compare(a.job, b.job), strings.Compare(a.key, b.key))
	})
	for _, named := range []bool{true, false} {
		for _, s := range order {
			o.promise(h.node, s, named)
		}
	}
	h.outlook = o
	return o
}

// hold counts a charge up to its end.
func (o outlook) hold(n *node, c charge, end int64) {
	if end == math.MinInt64 {
		return
	}
	for l, v := range n.pools[c.pool].leaves {
		if v == c.leaf {
			f := &o[c.pool][l]
			f.all.Add(math.MinInt64, end, f.count(c.amount, v.about.Size))
		}
	}
}

// promise counts what a slot is promised: with named the shares whose leaf is
// found by its path below the node; without, the others by their type, where
// there is room for them.
func (o outlook) promise(n *node, s *Slot, named bool) {
	w := Window{from: Instant(s.start), to: endOf(s.end)}
	if w.to <= w.from {
		return
	}
	for _, h := range s.shares {
		if h.way || h.amount == 0 {
			continue
		}
		k, v := n.leaf(h.about.Type, below(h.about.Path, s.node))
		switch {
		case v != nil && named:
			for l, at := range n.pools[k].leaves {
				if at == v {
					o[k][l].reserve(w, h.amount, v.about.Size)
				}
			}
		case v == nil && !named:
			o.spread(n, w, h)
		}
	}
}

// spread counts a promised share on the leaves of its type, as spread of a node
// does for one that is held.
func (o outlook) spread(n *node, w Window, h share) {
	k := n.find(h.about.Type)
	if k < 0 {
		return
	}
	left := h.amount
	for l, v := range n.pools[k].leaves {
		f := &o[k][l]
		part := left
		if l+1 < len(n.pools[k].leaves) {
			part = min(left, f.free(w, v.about.Size))
		}
		if part > 0 {
			f.reserve(w, part, v.about.Size)
			left -= part
		}
	}
}

// count returns an amount as the forecast counts it. More than the size of the
// leaf is no more than that.
func (f *forecast) count(amount, size int64) int64 {
	amount = min(amount, size)
	n := amount >> f.shift
	if n<<f.shift < amount {
		n++
	}
	return n
}

// reserve counts an amount as promised.
func (f *forecast) reserve(w Window, amount, size int64) {
	n := f.count(amount, size)
	f.all.Add(w.from, w.to, n)
	f.promised.Add(w.from, w.to, n)
}

// free returns what of a leaf of this size is left all through a window, going by
// the ends of what is held.
func (f *forecast) free(w Window, size int64) int64 {
	return max(0, size>>f.shift-f.all.Peak(w.from, w.to)) << f.shift
}

// freeOver returns what of a leaf may be given out for a window.
func (h *host) freeOver(w Window, k, l int) int64 {
	v, f := h.node.pools[k].leaves[l], &h.outlook[k][l]
	if v.about.Status != resource.Up {
		return 0
	}
	free := f.free(w, v.about.Size)
	if w.present {
		// What is past its end is held all the same.
		free = min(free, max(0, v.free()>>f.shift-f.promised.At(w.from))<<f.shift)
	}
	return free
}

// exclusivityOver says who holds slots on the host within a window, or is promised
// some.
func (h *host) exclusivityOver(w Window, promised map[*Slot]struct{}) solver.Exclusivity {
	var x solver.Exclusivity
	for s := range h.heeded() {
		if w.outlasts(s) {
			join(&x, s)
		}
	}
	for s := range promised {
		if w.meets(s) {
			join(&x, s)
		}
	}
	return x
}

// join counts a slot among those of a node. Of several holders it only says that
// there are several.
func join(x *solver.Exclusivity, s *Slot) {
	switch {
	case s.shared:
	case s.holder == "":
		x.Others++
	case x.Holders == 0:
		x.Holders, x.Holder = 1, s.holder
	case x.Holder != s.holder:
		x.Holders, x.Holder = 2, ""
	}
}
