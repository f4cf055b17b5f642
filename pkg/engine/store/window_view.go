package store

import (
	"cmp"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A WindowView makes the columns show what is free, and which holders nodes have,
// during a whole window. It overlays the columns of hosts where the window differs from
// the present: it overwrites their entries. Restore writes the present values back.
type WindowView struct {
	store    *Store
	window   Window
	overlaid map[*host]struct{}
}

// ViewNow returns the view of a request that starts now. It overlays the hosts where something is
// reserved within the request's window.
func (st *Store) ViewNow(r *match.Request) *WindowView {
	v := &WindowView{store: st}
	v.MoveToNow(WindowOf(r))
	return v
}

// MoveToNow moves the view to a window that begins now.
func (v *WindowView) MoveToNow(w Window) {
	v.Restore()
	v.window = w
	v.window.present = true
	for name, slots := range v.store.reservations.byNode {
		for s := range slots {
			if v.window.overlaps(s) {
				v.overlay(name)
				break
			}
		}
	}
}

// overlay makes the columns show what is free on a host during the window. It returns the host's
// node, or nil if there is none.
func (v *WindowView) overlay(name string) *node {
	h := v.store.hosts.byName[name]
	if h == nil || h.node == nil {
		return nil
	}
	if v.overlaid == nil {
		v.overlaid = make(map[*host]struct{})
	}
	v.overlaid[h] = struct{}{}
	reserved := v.store.reservations.byNode[name]
	h.makeTimeline(reserved)
	n := h.node
	for k := range n.pools {
		free := int64(0)
		for l := range n.pools[k].leaves {
			free = solver.SatAdd(free, h.freeIn(v.window, k, l))
		}
		c := n.pools[k].column
		c.set(n.position, c.Capacity[n.position], free)
	}
	v.store.graph.columns.setExclusivity(n.position, h.exclusivityIn(v.window, reserved))
	return n
}

// free returns what may be given out of a leaf during the window.
func (v *WindowView) free(n *node, k, l int) int64 {
	if at := v.store.hosts.byName[n.name()]; len(v.overlaid) > 0 {
		if _, ok := v.overlaid[at]; ok {
			return at.freeIn(v.window, k, l)
		}
	}
	return n.pools[k].leaves[l].free()
}

// Restore makes the columns show what is held now, without reservations.
func (v *WindowView) Restore() {
	for at := range v.overlaid {
		for k := range at.node.pools {
			at.node.updateColumns(k)
		}
		at.updateExclusivity(&v.store.graph.columns)
		if len(v.store.reservations.byNode[at.node.name()]) == 0 {
			at.timeline = nil
		}
	}
	clear(v.overlaid)
}

// Reserved lists the positions of the nodes where something is reserved within the window, in no order. The
// view must show the present.
func (v *WindowView) Reserved() []int32 {
	at := make([]int32, 0, len(v.overlaid))
	for h := range v.overlaid {
		at = append(at, int32(h.node.position))
	}
	return at
}

// WithoutReservations calls do while the columns show what is held now, without reservations. The view must show
// the present.
func (v *WindowView) WithoutReservations(do func()) {
	w := v.window
	v.Restore()
	do()
	v.MoveToNow(w)
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

// MoveTo moves the view to another window. It calls do with the name of each host where
// something starts or ends between the windows, until do returns false. Invariant: do
// calls Overlay for the host. Until then the columns still show the previous window
// there. When the view leaves the present, allocations past their end count as released.
func (v *WindowView) MoveTo(to Window, do func(name string) bool) {
	previous := v.window
	v.window = to
	moved := make(map[string]bool)
	markMoved := func(s *Slot) { moved[s.node] = true }
	if previous.present {
		v.store.reservations.allEnds.upTo(previous.start, markMoved)
	}
	v.store.reservations.allEnds.within(previous.start, to.start, markMoved)
	v.store.reservations.reservedStarts.within(previous.end-1, to.end-1, markMoved)
	for name := range moved {
		if !do(name) {
			return
		}
	}
}

// Overlay makes the columns show what is free on a host during the window. It returns the position
// of the host's node. It returns false if there is none.
func (v *WindowView) Overlay(name string) (at int, ok bool) {
	n := v.overlay(name)
	if n == nil {
		return 0, false
	}
	return n.position, true
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
	if _, ok := v.overlaid[at]; !ok {
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
	if _, ok := v.overlaid[v.store.hosts.byName[name]]; ok {
		v.overlay(name)
	}
}
