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
	store   *Store
	window  Window
	covered map[*host]struct{}
}

// Present returns the view of a request that is to be given its resources now.
// It covers the hosts where something is promised within the window.
func (st *Store) Present(r *match.Request) *WindowView {
	v := &WindowView{store: st}
	v.LookNow(WindowOf(r))
	return v
}

// LookNow turns to a window that begins now.
func (v *WindowView) LookNow(w Window) {
	v.Restore()
	v.window = w
	v.window.present = true
	for name, slots := range v.store.reservations.nodes {
		for s := range slots {
			if v.window.meets(s) {
				v.cover(name)
				break
			}
		}
	}
}

// cover has the columns say what there is of a host within the window. It returns
// the host's node; nil if it has none.
func (v *WindowView) cover(name string) *node {
	at := v.store.hosts.byName[name]
	if at == nil || at.node == nil {
		return nil
	}
	if v.covered == nil {
		v.covered = make(map[*host]struct{})
	}
	v.covered[at] = struct{}{}
	promised := v.store.reservations.nodes[name]
	at.foresee(promised)
	n := at.node
	for k := range n.pools {
		free := int64(0)
		for l := range n.pools[k].leaves {
			free = solver.Plus(free, at.freeOver(v.window, k, l))
		}
		n.pools[k].column.Free[n.position] = free
	}
	v.store.graph.columns.let(n.position, at.exclusivityOver(v.window, promised))
	return n
}

// free returns what of a leaf may be given out within the window.
func (v *WindowView) free(n *node, k, l int) int64 {
	if at := v.store.hosts.byName[n.name()]; len(v.covered) > 0 {
		if _, ok := v.covered[at]; ok {
			return at.freeOver(v.window, k, l)
		}
	}
	return n.pools[k].leaves[l].free()
}

// Restore has the columns say what is held, and nothing else.
func (v *WindowView) Restore() {
	for at := range v.covered {
		for k := range at.node.pools {
			at.node.count(k)
		}
		at.settleExclusivity(&v.store.graph.columns)
		if len(v.store.reservations.nodes[at.node.name()]) == 0 {
			at.outlook = nil
		}
	}
	clear(v.covered)
}

// Window returns the time that is looked at.
func (v *WindowView) Window() Window { return v.window }

// Turn turns to a window. It calls do with the name of each host where something begins or ends
// between the window before and this one, until do is false. Do covers the host: until then the
// columns do not say what is free there within the window. What is past its end goes on the way
// from the present to the first later window.
func (v *WindowView) Turn(to Window, do func(name string) bool) {
	past := v.window
	v.window = to
	moved := make(map[string]bool)
	see := func(s *Slot) { moved[s.node] = true }
	if past.present {
		v.store.reservations.ends.upTo(past.from, see)
	}
	v.store.reservations.ends.within(past.from, to.from, see)
	v.store.reservations.starts.within(past.to-1, to.to-1, see)
	for name := range moved {
		if !do(name) {
			return
		}
	}
}

// Cover has the columns say what is free of a host within the window. It returns the position of
// the host's node, and is false if it has none.
func (v *WindowView) Cover(name string) (at int, ok bool) {
	n := v.cover(name)
	if n == nil {
		return 0, false
	}
	return n.position, true
}

// Next returns the first time after the given one at which more may come to be free: the end of
// something held or promised. What is past its end at the present is free a while after it.
func (v *WindowView) Next(after, present int64) (int64, bool) {
	t, ok := v.store.reservations.ends.times.Next(after)
	if then := present + soon; after < then && (!ok || then < t) && v.store.reservations.ends.begins(present) {
		return then, true
	}
	return t, ok
}

// soon is how long after the present a slot that is past its end counts as given
// back.
const soon = int64(time.Second)

// CoverSteps is how many steps it counts to cover a host.
const CoverSteps = 64

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
	if _, ok := v.covered[at]; !ok {
		return CoverSteps
	}
	return CoverSteps * (1 + len(at.slots) - at.ignored + len(v.store.reservations.nodes[name]))
}

// Without calls do as if slots that stand were not there.
func (v *WindowView) Without(slots []*Slot, do func()) {
	for _, s := range slots {
		v.store.hosts.byName[s.node].drop(s, &v.store.graph.columns)
		v.coverAgain(s.node)
	}
	do()
	for _, s := range slots {
		v.store.hosts.byName[s.node].add(s, &v.store.graph.columns)
		v.coverAgain(s.node)
	}
}

// coverAgain covers a host anew if it is covered, after what it holds has changed.
func (v *WindowView) coverAgain(name string) {
	if _, ok := v.covered[v.store.hosts.byName[name]]; ok {
		v.cover(name)
	}
}
