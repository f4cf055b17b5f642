package engine

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
)

// An overlay makes the columns and the exclusivities of a snapshot show what is free when some units
// have gone.
type overlay struct {
	held     *store.Occupancy
	needs    []solver.Need
	snapshot *store.Snapshot
	gone     []bool
	// left has, by index of an occupied node and need, what is left. It may be below 0. free has where the columns
	// have it; nil for what is not there.
	left []int64
	free []*int64
	// others, without and present have, by index of an occupied node, the slots of other holders, the
	// slots without a holder, and the units.
	others, without, present []int32
	// changed is called with the index of each node that has changed. Nil calls nothing.
	changed func(node int32)
}

// newOverlay returns an overlay without units that have gone. The needs have the columns of the
// snapshot, which the overlay overwrites.
func newOverlay(held *store.Occupancy, needs []solver.Need, snapshot *store.Snapshot) *overlay {
	nodes := len(held.Nodes)
	o := &overlay{
		held: held, needs: needs, snapshot: snapshot, gone: make([]bool, len(held.Units)),
		left: make([]int64, 0, nodes*len(needs)), free: make([]*int64, nodes*len(needs)),
		others: make([]int32, nodes), without: make([]int32, nodes), present: make([]int32, nodes),
	}
	for i := range held.Nodes {
		n := &held.Nodes[i]
		o.left = append(o.left, n.Left...)
		o.others[i], o.without[i] = n.OtherHolders, n.WithoutHolder
		for k, c := range n.Columns {
			if c >= 0 {
				o.free[i*len(needs)+k] = &needs[k].Columns[c].Free[n.At]
			}
		}
	}
	for u := range held.Units {
		for _, p := range held.Units[u].Parts {
			o.present[p.Node]++
		}
	}
	return o
}

// partSteps is the cost in steps of removing a part of a unit, besides the counting of what fits.
const partSteps = 8

// steps returns the cost in steps of removing a unit, or of putting it back.
func (o *overlay) steps(u int32) int {
	return len(o.held.Units[u].Parts) * (partSteps + len(o.needs))
}

// remove makes what a unit holds count as free.
func (o *overlay) remove(u int32) { o.apply(u, 1) }

// putBack reverts remove.
func (o *overlay) putBack(u int32) { o.apply(u, -1) }

// apply adds a unit's gains, or takes them back if sign is -1.
func (o *overlay) apply(u int32, sign int64) {
	o.gone[u] = sign > 0
	parts := o.held.Units[u].Parts
	for i := range parts {
		p := &parts[i]
		at := p.Node
		o.present[at] -= int32(sign)
		left := o.left[int(at)*len(o.needs):]
		for k, gain := range o.held.Gains(p) {
			left[k] += sign * gain
		}
		o.others[at] -= int32(sign) * p.OtherHolders
		o.without[at] -= int32(sign) * p.WithoutHolder
		o.write(at, p.OtherHolders != 0 || p.WithoutHolder != 0)
		if o.changed != nil {
			o.changed(at)
		}
	}
}

// write writes what is left on a node to the columns, and its exclusivity if its holders may have changed.
func (o *overlay) write(at int32, holders bool) {
	left, x := o.leftOn(at)
	for k, free := range o.free[int(at)*len(o.needs):][:len(left)] {
		if free != nil {
			*free = max(0, left[k])
		}
	}
	if n := &o.held.Nodes[at]; holders || n.Emptied != nil {
		o.snapshot.SetExclusivity(n.At, x)
	}
}

// leftOn returns what is left on a node, by need, and its holders. The holders are only such that they
// conflict with the same requesters.
func (o *overlay) leftOn(at int32) ([]int64, solver.Exclusivity) {
	n := &o.held.Nodes[at]
	if e := n.Emptied; e != nil {
		if o.present[at] == 0 {
			return e.Left, e.Exclusivity
		}
		return n.Left, e.Before
	}
	return o.left[int(at)*len(o.needs):][:len(o.needs)], solver.Exclusivity{WithoutHolder: o.without[at], Holders: 2 * min(1, o.others[at])}
}

// A placedOverlay checks whether units may come back while a placement stays.
type placedOverlay struct {
	*overlay
	who solver.Requester
	// taken has, by index of an occupied node and need, what the placement takes. used reports whether the
	// placement uses the node.
	taken []int64
	used  []bool
}

// place returns the overlay with a placement. Nodes of runs are positions.
func (o *overlay) place(runs []solver.Run, shapes []solver.Shape, who solver.Requester) *placedOverlay {
	p := &placedOverlay{overlay: o, who: who, taken: make([]int64, len(o.left)), used: make([]bool, len(o.present))}
	index := make(map[int]int, len(o.held.Nodes))
	for i := range o.held.Nodes {
		index[int(o.held.Nodes[i].At)] = i
	}
	for _, r := range runs {
		i, occupied := index[r.Node]
		if !occupied {
			continue
		}
		p.used[i] = true
		for _, k := range shapes[r.Shape].NeedsInOrder {
			taken := &p.taken[i*len(o.needs)+k]
			*taken = solver.SatAdd(*taken, solver.SatMul(r.Count, shapes[r.Shape].AmountPerSlot[k]))
		}
	}
	return p
}

// holds reports whether the placement fits on the nodes where a unit is.
func (p *placedOverlay) holds(u int32) bool {
	for i := range p.held.Units[u].Parts {
		at := p.held.Units[u].Parts[i].Node
		if !p.used[at] {
			continue
		}
		left, x := p.leftOn(at)
		if x.Conflict(p.who) != solver.NoConflict {
			return false
		}
		for k, have := range left {
			if have = max(0, have); have < p.taken[int(at)*len(p.needs)+k] {
				return false
			}
		}
	}
	return true
}

// giveBack puts back the units of a set that do not stand in the way of the placement, in the order of
// the set. It returns the others.
func (p *placedOverlay) giveBack(set []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(set), func(u int32) bool {
		p.putBack(u)
		if p.holds(u) {
			return true
		}
		p.remove(u)
		return false
	})
}
