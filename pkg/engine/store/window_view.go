package store

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/match"
)

// A WindowView is the time that an attempt looks at. As long as it stands, what the
// columns say of the hosts it covers, of free amounts and of whose they are, holds all
// through its window; of the others it does anyway.
type WindowView struct {
	store    *Store
	window   Window
	overlaid map[*host]struct{}
}

// ViewNow returns the view of a request that is to be given its resources now.
// It covers the hosts where something is promised within the window.
func (st *Store) ViewNow(r *match.Request) *WindowView {
	v := &WindowView{store: st}
	v.MoveToNow(WindowOf(r))
	return v
}

// MoveToNow turns to a window that begins now.
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

// overlay has the columns say what there is of a host within the window. It returns
// the host's node; nil if it has none.
func (v *WindowView) overlay(name string) *node {
	at := v.store.hosts.byName[name]
	if at == nil || at.node == nil {
		return nil
	}
	if v.overlaid == nil {
		v.overlaid = make(map[*host]struct{})
	}
	v.overlaid[at] = struct{}{}
	promised := v.store.reservations.byNode[name]
	at.makeTimeline(promised)
	n := at.node
	for k := range n.pools {
		free := int64(0)
		for l := range n.pools[k].leaves {
			free = solver.SatAdd(free, at.freeIn(v.window, k, l))
		}
		n.pools[k].column.Free[n.position] = free
	}
	v.store.graph.columns.setExclusivity(n.position, at.exclusivityIn(v.window, promised))
	return n
}

// free returns what of a leaf may be given out within the window.
func (v *WindowView) free(n *node, k, l int) int64 {
	if at := v.store.hosts.byName[n.name()]; len(v.overlaid) > 0 {
		if _, ok := v.overlaid[at]; ok {
			return at.freeIn(v.window, k, l)
		}
	}
	return n.pools[k].leaves[l].free()
}

// Restore has the columns say what is held, and nothing else.
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

// Window returns the time that is looked at.
func (v *WindowView) Window() Window { return v.window }

// MoveTo turns to a window. It calls do with the name of each host where something begins or ends
// between the window before and this one, until do is false. Do covers the host: until then the
// columns do not say what is free there within the window. What is past its end goes on the way
// from the present to the first later window.
func (v *WindowView) MoveTo(to Window, do func(name string) bool) {
	past := v.window
	v.window = to
	moved := make(map[string]bool)
	see := func(s *Slot) { moved[s.node] = true }
	if past.present {
		v.store.reservations.ends.upTo(past.start, see)
	}
	v.store.reservations.ends.within(past.start, to.start, see)
	v.store.reservations.starts.within(past.end-1, to.end-1, see)
	for name := range moved {
		if !do(name) {
			return
		}
	}
}

// Overlay has the columns say what is free of a host within the window. It returns the position of
// the host's node, and is false if it has none.
func (v *WindowView) Overlay(name string) (at int, ok bool) {
	n := v.overlay(name)
	if n == nil {
		return 0, false
	}
	return n.position, true
}

// Next returns the first time after the given one at which more may come to be free: the end of
// something held or promised. What is past its end at the present is free a while after it.
func (v *WindowView) Next(after, present int64) (int64, bool) {
	t, ok := v.store.reservations.ends.times.Next(after)
	if then := present + overdueGrace; after < then && (!ok || then < t) && v.store.reservations.ends.hasUpTo(present) {
		return then, true
	}
	return t, ok
}

// overdueGrace is how long after the present a slot that is past its end counts as given
// back.
const overdueGrace = int64(time.Second)

// OverlaySteps is how many steps it counts to cover a host.
const OverlaySteps = 64

// StepsToChange is how many steps it counts to take slots off their hosts, or to put them back.
func (v *WindowView) StepsToChange(slots []*Slot) int {
	steps := 0
	for _, s := range slots {
		steps += v.stepsOf(s.node)
	}
	return steps
}

// stepsOf is how many steps it counts to cover a host anew after what it holds has changed.
func (v *WindowView) stepsOf(name string) int {
	at := v.store.hosts.byName[name]
	if _, ok := v.overlaid[at]; !ok {
		return OverlaySteps
	}
	return OverlaySteps * (1 + len(at.slots) - at.ignored + len(v.store.reservations.byNode[name]))
}

// Without calls do as if slots that stand were not there.
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

// overlayAgain covers a host anew if it is covered, after what it holds has changed.
func (v *WindowView) overlayAgain(name string) {
	if _, ok := v.overlaid[v.store.hosts.byName[name]]; ok {
		v.overlay(name)
	}
}
