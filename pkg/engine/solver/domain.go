package solver

import (
	"cmp"
	"math"
	"slices"
)

// SortSteps is how many steps it counts to sort one thing among many.
const SortSteps = 16

// A domain is what stands below one vertex of a level, of the nodes that are looked
// at.
type domain struct {
	// cell is the vertex's number on its level; -1 for the nodes that stand below none.
	level *Level
	cell  int32
	// order are the positions of its nodes, in the order in which they are to be
	// used.
	order []int32
	// room is by shape how many slots fit, with each counted as if it were alone; sum
	// adds them up, and useful bounds how many of those wanted fit together. Where there
	// are several shapes, room goes on with what there is of each need, and with how
	// many slots fit if each were the smallest. Rooms of domains add up.
	room          []int64
	total, useful int64
	// distance is that of the node that is closest to the near ones.
	distance int
}

// domains divides nodes by the level of an aim and counts what fits there. They are
// sorted by how well they serve: the closest to near nodes first, then the fullest,
// then by path.
func (t *topologySearch) domains(order []int32, at int) []*domain {
	whole := len(order) == len(t.order)
	if known := t.allDomains[at]; whole && known != nil {
		return t.countUseful(known)
	}
	found := t.divide(order, &t.topology[at])
	for _, d := range found {
		if t.countRoom(d); t.IsExhausted() {
			return nil
		}
	}
	t.budget -= len(order) * len(t.shapes)
	t.Spend(SortSteps * len(found))
	slices.SortFunc(found, func(x, y *domain) int {
		return cmp.Or(cmp.Compare(x.distance, y.distance), cmp.Compare(x.total, y.total), cmp.Compare(x.cell, y.cell))
	})
	if whole {
		if t.allDomains == nil {
			t.allDomains = make(map[int][]*domain)
		}
		t.allDomains[at] = found
	}
	return t.countUseful(found)
}

// countUseful works out of how many slots that are wanted a domain could have room for.
func (t *topologySearch) countUseful(domains []*domain) []*domain {
	if !t.Charge(len(domains) * len(t.shapes) / needsPerStep) {
		return domains
	}
	for _, d := range domains {
		d.useful = 0
		for s := range t.shapes {
			d.useful += min(d.room[s], t.shapes[s].Count.Min)
		}
		d.useful = min(d.useful, d.room[len(d.room)-1])
	}
	return domains
}

// divide divides nodes by the level of an aim. What stands below no vertex of the
// level is a domain of its own where slots are only to stand on few, and else left
// out.
func (t *topologySearch) divide(order []int32, x *Level) []*domain {
	if !t.Charge(3*len(order) + len(x.Names)) {
		return nil
	}
	sizes := make([]int32, len(x.Names)+1)
	for _, at := range order {
		sizes[x.DomainOf[at]+1]++
	}
	positions := make([]int32, 0, len(order))
	all := make([]domain, len(sizes))
	var found []*domain
	for c, n := range sizes {
		if n == 0 || c == 0 && x.Rule != FewestDomains {
			continue
		}
		d := &all[c]
		d.level, d.cell = x, int32(c)-1
		d.order = positions[len(positions) : len(positions) : len(positions)+int(n)]
		positions = positions[:len(positions)+int(n)]
		found = append(found, d)
	}
	for _, at := range order {
		if d := &all[x.DomainOf[at]+1]; cap(d.order) > 0 {
			d.order = append(d.order, at)
		}
	}
	if t.problem.Distance != nil {
		for _, d := range found {
			d.distance = t.problem.Distance[d.order[0]]
		}
	}
	return found
}

// countRoom counts what fits in a domain, never too few slots.
func (t *topologySearch) countRoom(d *domain) {
	b := t.withNodes(d.order)
	d.room = make([]int64, len(t.shapes))
	b.start(t.view)
	for s := range d.room {
		if !t.Charge(len(d.order) * t.fitSteps(s)) {
			continue
		}
		if !t.countByFill[s] {
			for i := range b.order {
				d.room[s] += b.roomFor(s, i, MaxSlots)
			}
		} else {
			b.start(t.view)
			d.room[s] = b.fill(s, MaxSlots)
			b.start(t.view)
		}
		d.total = SatAdd(d.total, d.room[s])
	}
	if len(d.room) > 1 {
		all, slots := jointRoom(b, t.view)
		d.room = append(append(d.room, all...), slots)
	}
}

// jointRoom returns how much there is of each need for all shapes together, and bounds how
// many slots that is enough for.
func jointRoom(b *Layout, v View) (all []int64, slots int64) {
	b.start(v)
	all, slots = b.totals(), math.MaxInt64
	if !b.Charge(len(all) * len(b.shapes) / needsPerStep) {
		return all, slots
	}
	for k, have := range all {
		least := int64(math.MaxInt64)
		for _, s := range b.shapes {
			least = min(least, s.Each[k])
		}
		if least > 0 {
			slots = min(slots, have/least)
		}
	}
	return all, slots
}

// wantedRoom returns what is wanted of each room of a domain, for the least of every shape.
func (t *topologySearch) wantedRoom() []int64 {
	needs := len(t.problem.Needs)
	t.Spend(needs * len(t.shapes) / needsPerStep)
	want := make([]int64, len(t.shapes))
	total := int64(0)
	for i, s := range t.shapes {
		want[i] = s.Count.Min
		total += s.Count.Min
	}
	if len(t.shapes) == 1 {
		return want
	}
	for k := range needs {
		sum := int64(0)
		for _, s := range t.shapes {
			sum = SatAdd(sum, SatMul(s.Count.Min, s.Each[k]))
		}
		want = append(want, sum)
	}
	return append(want, total)
}

// mayHold says whether the domain alone may have room for all slots.
func (d *domain) mayHold(want []int64) bool {
	for s, n := range d.room {
		if n < want[s] {
			return false
		}
	}
	return true
}

// union returns the nodes of some domains, in the order in which they are to be
// used.
func (t *topologySearch) union(domains []*domain) []int32 {
	if len(domains) == 1 {
		return domains[0].order
	}
	var order []int32
	for _, d := range domains {
		t.Spend(SortSteps * len(d.order))
		order = append(order, d.order...)
	}
	slices.SortFunc(order, func(x, y int32) int { return cmp.Compare(t.index[x], t.index[y]) })
	return order
}

// name returns the name of the domain's vertex.
func (d *domain) name() string {
	if d == nil || d.cell < 0 {
		return ""
	}
	return d.level.Names[d.cell]
}
