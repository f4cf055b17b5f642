package store

import (
	"cmp"
	"math"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// An Occupancy is what units hold on the nodes, in the needs of one request. It is a copy: the store
// may change afterwards.
type Occupancy struct {
	// Nodes are the nodes on which units hold something that matters to the request.
	Nodes []OccupiedNode
	// Units are the units, by their index in the request.
	Units []HeldUnit
	// gains has the gains of all parts, by need.
	gains []int64
	needs int
}

// An OccupiedNode is a node on which units hold something.
type OccupiedNode struct {
	// At is the position of the node.
	At int32
	// Columns has, by need, the index of the column that has the node's amount. It is -1 if the node has
	// nothing of the need to give out, whoever ends.
	Columns []int32
	// Left has, by need, what is left. It is below 0 if more is held than there is.
	Left []int64
	// OtherHolders is the number of slots of other holders than the requester. WithoutHolder is the
	// number of slots without a holder that are not shared. Both are 0 if they do not matter.
	OtherHolders, WithoutHolder int32
	// Emptied is set for a node on which the ends of slots do not add up, because something is reserved
	// there, or a pool has several leaves. There, only the end of all units together counts.
	Emptied *EmptiedNode
}

// An EmptiedNode is a node when all units there have ended.
type EmptiedNode struct {
	// Left has, by need, what is left.
	Left []int64
	// Exclusivity is the node's exclusivity when the units have gone. Before is its exclusivity now.
	Exclusivity, Before solver.Exclusivity
}

// A HeldUnit is what one unit holds.
type HeldUnit struct {
	// Slots is the number of slots that the unit holds.
	Slots int64
	// Parts are the nodes where its end may help the request, ordered by position.
	Parts []UnitPart
}

// A UnitPart is what a unit holds on one node.
type UnitPart struct {
	// Node is an index into Occupancy.Nodes.
	Node int32
	// OtherHolders and WithoutHolder are the unit's part of these numbers of the node.
	OtherHolders, WithoutHolder int32
	// gains is the index of the first gain.
	gains int
}

// Gains returns, by need, what a part holds.
func (o *Occupancy) Gains(p *UnitPart) []int64 {
	return o.gains[p.gains : p.gains+o.needs : p.gains+o.needs]
}

// An occupancyReader reads an occupancy.
type occupancyReader struct {
	*Occupancy
	view  *WindowView
	needs []solver.Need
	who   solver.Requester
	// holdersMatter reports whether some node has a holder, or the request wants whole nodes.
	holdersMatter bool
	// pools has, by node and need, the index of the node's pool; -1 if there is none.
	pools []int
	// columns and left are room for the numbers of the nodes that are read next.
	columns []int32
	left    []int64
	// index has, by position, the index of a node in Nodes plus 1. It is 0 if the node is not there.
	index []int32
	// unitOf and partOf have, by index in Nodes, the last unit that has a part there, and the index of
	// that part.
	unitOf []*HeldUnit
	partOf []int
	// emptied has the slots of units on nodes where their ends do not add up.
	emptied map[int32][]*Slot
}

// Occupancy returns what these units hold during the view's window, apart from ignored slots. It
// returns the cost in steps. It stops if the cost exceeds most, and all is false then. needs must have
// their columns.
func (v *WindowView) Occupancy(units []match.Unit, needs []solver.Need, who solver.Requester, most int) (o *Occupancy, steps int, all bool) {
	st := v.store
	r := occupancyReader{
		Occupancy: &Occupancy{Units: make([]HeldUnit, len(units)), needs: len(needs)}, view: v, needs: needs, who: who,
		holdersMatter: who.Exclusive || st.graph.columns.exclusiveNodes > 0, index: make([]int32, len(st.graph.nodes)),
	}
	st.occupancies++
	for i := range units {
		for _, ref := range units[i].Slots {
			j := st.jobs[ref.Job]
			if j == nil {
				continue
			}
			n := len(ref.Keys)
			if n == 0 {
				n = len(j.slots)
			}
			if steps += jobSteps + slotSteps*n; steps > most {
				return nil, steps, false
			}
			r.Units[i].Parts = slices.Grow(r.Units[i].Parts, n)
			r.gains = slices.Grow(r.gains, n*len(needs))
			r.addSlots(&r.Units[i], j, ref.Keys)
		}
		slices.SortFunc(r.Units[i].Parts, func(x, y UnitPart) int { return cmp.Compare(r.Nodes[x.Node].At, r.Nodes[y.Node].At) })
	}
	for i, slots := range r.emptied {
		if steps += 2 * v.StepsToChange(slots); steps > most {
			return nil, steps, false
		}
		r.empty(&r.Nodes[i], slots)
	}
	return r.Occupancy, steps, true
}

// addSlots adds the slots of a job with these keys, or all of them without keys, to a unit.
func (r *occupancyReader) addSlots(u *HeldUnit, j *Job, keys []string) {
	for _, key := range keys {
		if s := j.slots[key]; s != nil {
			r.addSlot(u, s)
		}
	}
	if len(keys) == 0 {
		for _, s := range j.slots {
			r.addSlot(u, s)
		}
	}
}

// addSlot adds a slot to a unit, once. Ignored slots are skipped.
func (r *occupancyReader) addSlot(u *HeldUnit, s *Slot) {
	st := r.view.store
	if s.occupancy == st.occupancies || s.ignoredBy == st.ignoring.number {
		return
	}
	s.occupancy = st.occupancies
	u.Slots++
	h := s.host
	if h.node == nil {
		return
	}
	at := r.node(h)
	if r.Nodes[at].Emptied != nil {
		r.emptied[at] = append(r.emptied[at], s)
	}
	p := r.part(u, at)
	gains, pools := r.Gains(p), r.pools[int(at)*len(r.needs):]
	for _, c := range s.charges {
		for k := range gains {
			if pools[k] == c.pool {
				gains[k] += c.amount
			}
		}
	}
	if r.holdersMatter && !s.onEveryNode {
		switch {
		case s.holder == "":
			p.WithoutHolder++
		case s.holder != r.who.Holder:
			p.OtherHolders++
		}
	}
}

// part returns the part of a unit on a node.
func (r *occupancyReader) part(u *HeldUnit, at int32) *UnitPart {
	if r.unitOf[at] == u {
		return &u.Parts[r.partOf[at]]
	}
	r.unitOf[at], r.partOf[at] = u, len(u.Parts)
	u.Parts = append(u.Parts, UnitPart{Node: at, gains: len(r.gains)})
	r.gains = append(r.gains, make([]int64, len(r.needs))...)
	return &u.Parts[len(u.Parts)-1]
}

// node returns the index of a host's node in Nodes.
func (r *occupancyReader) node(h *host) int32 {
	if i := r.index[h.node.position]; i > 0 {
		return i - 1
	}
	n := OccupiedNode{At: int32(h.node.position), Columns: take(&r.columns, len(r.needs)), Left: take(&r.left, len(r.needs))}
	if r.holdersMatter {
		n.WithoutHolder = h.exclusivity.WithoutHolder
		for holder, slots := range h.holders {
			if holder != r.who.Holder {
				n.OtherHolders += int32(slots)
			}
		}
	}
	addsUp := !r.view.isCovered(h.node) && !h.node.multiLeaf
	for k := range r.needs {
		n.Columns[k] = -1
		pool := h.node.poolIndex(r.needs[k].Type)
		if pool >= 0 {
			p := &h.node.pools[pool]
			n.Columns[k] = int32(slices.Index(r.needs[k].Columns, &p.column.Column))
			if v := p.leaves[0]; len(p.leaves) == 1 && v.res.Status != resource.Up {
				n.Columns[k] = -1
			} else if v.used.high > 0 || v.used.low > math.MaxInt64 {
				addsUp = false
			} else {
				n.Left[k] = v.res.Size - int64(v.used.low)
			}
		}
		r.pools = append(r.pools, pool)
	}
	if !addsUp {
		n.Emptied = &EmptiedNode{}
		if r.emptied == nil {
			r.emptied = make(map[int32][]*Slot)
		}
		r.read(&n, n.Left)
	}
	r.Nodes, r.unitOf, r.partOf = append(r.Nodes, n), append(r.unitOf, nil), append(r.partOf, 0)
	r.index[n.At] = int32(len(r.Nodes))
	return int32(len(r.Nodes)) - 1
}

// read reads from the columns what is left on a node.
func (r *occupancyReader) read(n *OccupiedNode, left []int64) {
	for k := range r.needs {
		left[k] = 0
		if c := n.Columns[k]; c >= 0 {
			left[k] = r.needs[k].Columns[c].Free[n.At]
		}
	}
}

// empty finds out what is left on a node when these slots have ended.
func (r *occupancyReader) empty(n *OccupiedNode, slots []*Slot) {
	of := r.view.store.graph.columns.exclusive
	n.Emptied.Left, n.Emptied.Before = make([]int64, len(r.needs)), of[n.At]
	r.view.Without(slots, func() {
		r.read(n, n.Emptied.Left)
		n.Emptied.Exclusivity = of[n.At]
	})
}

// taken is how many numbers take makes room for at once.
const taken = 4096

// take returns n numbers that are 0 from a slice that it makes anew when too few are left.
func take[T int32 | int64](from *[]T, n int) []T {
	if len(*from) < n {
		*from = make([]T, max(n, taken))
	}
	all := (*from)[:n:n]
	*from = (*from)[n:]
	return all
}
