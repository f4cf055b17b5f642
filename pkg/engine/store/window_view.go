package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A WindowView makes the columns show what is free, and which holders nodes have,
// during a whole window. It covers the nodes where the window differs from what is held:
// a solver then reads what counts during the window.
//
// From one match to the next, nodes stay covered for the last window that began with the present. The next match
// covers only nodes anew that have changed, or where something begins or ends between the two windows. So a match
// beside thousands of reservations costs little if it asks for about the same time as the match before.
type WindowView struct {
	store *Store
	// window is the view's window, and now the last one that began with the present.
	window, now Window
	// moved is room for the hosts that one move covers.
	moved []*host
}

// ViewNow returns the view of a request that starts now. It covers the nodes where something is
// reserved within the request's window.
func (st *Store) ViewNow(r *match.Request) *WindowView {
	v := &WindowView{store: st}
	v.MoveToNow(WindowOf(r))
	return v
}

// MoveToNow moves the view to a window that begins now.
func (v *WindowView) MoveToNow(w Window) {
	w.present = true
	was, c, p := v.store.shown, &v.store.graph.columns, &v.store.reservations
	v.window, v.now, v.store.shown = w, w, w
	switch {
	case len(p.byNode) == 0 && c.covers == 0:
	case c.allStale || !was.present:
		for at, covered := range c.covered {
			if covered {
				v.refresh(at)
			}
		}
		for name := range p.byNode {
			if h := v.store.hosts.byName[name]; h != nil && h.node != nil && !c.covered[h.node.position] {
				v.refresh(h.node.position)
			}
		}
	default:
		change := func(s *Slot) {
			if h := v.store.hosts.byName[s.node]; h != nil && h.node != nil {
				c.stale = append(c.stale, int32(h.node.position))
			}
		}
		first, last := min(was.start, w.start), max(was.start, w.start)
		p.allEnds.within(first, last, change)
		p.reservedStarts.within(first, last, change)
		p.reservedStarts.within(min(was.end, w.end)-1, max(was.end, w.end)-1, change)
		slices.Sort(c.stale)
		for _, at := range slices.Compact(c.stale) {
			v.refresh(int(at))
		}
	}
	c.stale, c.allStale = c.stale[:0], false
}

// refresh covers the node at a position if something is reserved there within the window, or else uncovers it.
func (v *WindowView) refresh(at int) {
	name := v.store.graph.nodes[at].name()
	reserved := v.store.reservations.byNode[name]
	for s := range reserved {
		if v.window.overlaps(s) {
			v.overlay(name)
			return
		}
	}
	v.store.graph.columns.uncover(at)
	if len(reserved) == 0 {
		v.store.hosts.byName[name].timeline = nil
	}
}

// isCovered reports whether a solver reads what counts during the window on a node.
func (v *WindowView) isCovered(n *node) bool { return v.store.graph.columns.covered[n.position] }

// overlay makes the columns show what is free on a host during the window, if its node is in the graph.
func (v *WindowView) overlay(name string) {
	if h := v.store.hosts.byName[name]; h != nil && h.node != nil {
		v.cover(h)
	}
}

// cover makes the columns show what is free during the window on a host whose node is in the graph.
func (v *WindowView) cover(h *host) {
	n, c := h.node, &v.store.graph.columns
	c.cover(n.position)
	reserved := v.store.reservations.on(n)
	var x solver.Exclusivity
	if len(reserved) == 0 {
		x = h.holdLater(v.window)
	} else {
		h.makeTimeline(reserved)
		x = h.exclusivityIn(v.window, reserved)
	}
	for k := range n.pools {
		v.showPool(h, len(reserved) > 0, k)
	}
	c.showExclusivity(n.position, x)
}

// showPool makes a column show what is free of a pool during the window. reserved is as for freeOn.
func (v *WindowView) showPool(h *host, reserved bool, k int) {
	p, free := &h.node.pools[k], int64(0)
	for l := range p.leaves {
		free = solver.SatAdd(free, v.freeOn(h, reserved, k, l))
	}
	p.column.show(h.node.position, free)
}

// end makes the columns show a host without a slot that ends before the window, but not before the window that the
// view showed until now. It returns false if the host has to be covered instead: it was not covered for that
// window, it has reservations or it has a holder.
func (v *WindowView) end(h *host, s *Slot) bool {
	n, c := h.node, &v.store.graph.columns
	if !c.covered[n.position] || s.holder != "" || len(v.store.reservations.on(n)) > 0 {
		return false
	}
	if !h.counts(s) {
		return true
	}
	for i := range s.charges {
		c := &s.charges[i]
		c.leaf.later.sub(c.amount)
		if i+1 == len(s.charges) || s.charges[i+1].pool != c.pool {
			v.showPool(h, false, c.pool)
		}
	}
	if !s.onEveryNode {
		x := c.exclusive[n.position]
		x.WithoutHolder--
		c.showExclusivity(n.position, x)
	}
	return true
}

// free returns what may be given out of a leaf during the window.
func (v *WindowView) free(n *node, k, l int) int64 {
	if !v.isCovered(n) {
		return n.pools[k].leaves[l].free()
	}
	h, reserved := v.store.hosts.byName[n.name()], v.store.reservations.on(n)
	if len(reserved) > 0 {
		h.makeTimeline(reserved)
	}
	return v.freeOn(h, len(reserved) > 0, k, l)
}

// freeOn returns what may be given out of a leaf of a covered node during the window. reserved reports whether something
// is reserved there. Then the host has its timeline.
func (v *WindowView) freeOn(h *host, reserved bool, k, l int) int64 {
	if reserved {
		return h.freeIn(v.window, k, l)
	}
	return h.node.pools[k].leaves[l].freeBeside(&h.node.pools[k].leaves[l].later)
}

// Restore moves the view back to the present.
func (v *WindowView) Restore() {
	if !v.window.present {
		v.MoveToNow(v.now)
	}
}

// Reserved lists the positions of the nodes where something is reserved within the window. The view must
// show the present.
func (v *WindowView) Reserved() []int32 {
	c := &v.store.graph.columns
	if c.covers == 0 {
		return nil
	}
	nodes := make([]int32, 0, c.covers)
	for at, covered := range c.covered {
		if covered {
			nodes = append(nodes, int32(at))
		}
	}
	return nodes
}

// WithoutReservations calls do while the columns show what is held now, without reservations. The view must show
// the present. do must not change anything, and a solver must not use a Room.
func (v *WindowView) WithoutReservations(do func()) {
	v.store.graph.columns.swapHeld()
	defer v.store.graph.columns.swapHeld()
	do()
}

// FirstReserved returns the job whose reservation begins first, of those on the nodes at these positions within
// the window, and when it begins.
func (v *WindowView) FirstReserved(at []int32) (match.JobID, time.Time) {
	var first *Slot
	for _, i := range at {
		for s := range v.store.reservations.byNode[v.store.graph.nodes[i].name()] {
			if v.window.overlaps(s) && (first == nil || cmp.Or(s.start.Compare(first.start), cmp.Compare(s.job, first.job)) < 0) {
				first = s
			}
		}
	}
	return first.job, first.start
}

// Window returns the view's window.
func (v *WindowView) Window() Window { return v.window }

// MoveTo moves the view to a later window. Only nodes where something starts or ends between the windows are
// covered. Before each it asks may, and stops if that returns false. After each it calls covered with the
// node's position. When the view leaves the present, allocations past their end count as released.
func (v *WindowView) MoveTo(to Window, may func() bool, covered func(at int)) {
	previous, p := v.window, &v.store.reservations
	v.window, v.store.shown = to, to
	moved := v.moved[:0]
	move := func(s *Slot, ends bool) {
		h := s.host
		if h == nil {
			h = v.store.hosts.byName[s.node]
		}
		if h == nil || h.node == nil {
			return
		}
		if !h.moved {
			h.moved, moved = true, append(moved, h)
		}
		if !ends || previous.present || !v.end(h, s) {
			h.anew = true
		}
	}
	ends := func(s *Slot) { move(s, true) }
	if previous.present {
		p.allEnds.upTo(previous.start, ends)
	}
	p.allEnds.within(previous.start, to.start, ends)
	p.reservedStarts.within(previous.end-1, to.end-1, func(s *Slot) { move(s, false) })
	v.moved = moved
	stopped := false
	for _, h := range moved {
		anew := h.anew
		h.moved, h.anew = false, false
		if stopped = stopped || !may(); stopped {
			continue
		}
		if anew {
			v.cover(h)
		}
		covered(h.node.position)
	}
}

// JumpTo is MoveTo for a window that is very many ends later. It looks at every node instead of every end.
func (v *WindowView) JumpTo(to Window, may func() bool, covered func(at int)) {
	from := v.window
	v.window, v.store.shown = to, to
	for _, n := range v.store.graph.nodes {
		h := v.store.hosts.byName[n.name()]
		if len(v.store.reservations.on(n)) == 0 && !h.endsBetween(from, to) {
			continue
		}
		if !may() {
			return
		}
		v.cover(h)
		covered(n.position)
	}
}

// Next returns the first time after the given one at which an allocation or a reservation ends. An
// allocation that is past its end at the present counts as ending overdueGrace later.
func (v *WindowView) Next(after, present int64) (int64, bool) {
	t, ok := v.store.reservations.allEnds.times.Next(after)
	if overdueEnd := present + overdueGrace; after < overdueEnd && (!ok || overdueEnd < t) && v.store.reservations.allEnds.hasUpTo(present) {
		return overdueEnd, true
	}
	return t, ok
}

// overdueGrace is the time from the present to when
// an allocation past its end is taken to be released.
const overdueGrace = int64(time.Second)

// OverlaySteps is the cost in steps of overlaying a host.
const OverlaySteps = 64

// StepsToChange returns the cost in steps of taking slots off their hosts, or of putting them back.
func (v *WindowView) StepsToChange(slots []*Slot) int {
	steps := 0
	for _, s := range slots {
		steps += v.stepsOf(s.node)
	}
	return steps
}

// stepsOf returns the cost in steps of overlaying a host again after its slots have changed.
func (v *WindowView) stepsOf(name string) int {
	at := v.store.hosts.byName[name]
	if at.node == nil || !v.isCovered(at.node) {
		return OverlaySteps
	}
	return OverlaySteps * (1 + len(at.slots) - at.ignored + len(v.store.reservations.byNode[name]))
}

// Without calls do while these slots are off their hosts.
func (v *WindowView) Without(slots []*Slot, do func()) {
	for _, s := range slots {
		v.store.hosts.byName[s.node].drop(s, &v.store.graph.columns)
		v.overlayAgain(s.node)
	}
	do()
	for _, s := range slots {
		v.store.hosts.byName[s.node].add(s, &v.store.graph.columns)
		v.overlayAgain(s.node)
	}
}

// overlayAgain overlays a host again after its slots have changed, if the host is overlaid.
func (v *WindowView) overlayAgain(name string) {
	if h := v.store.hosts.byName[name]; h.node != nil && v.isCovered(h.node) {
		v.overlay(name)
	}
}
