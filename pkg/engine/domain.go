package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// sortSteps is how many steps it counts to sort one thing among many.
const sortSteps = 16

// A domain is what stands below one vertex of a level, of the nodes that are looked
// at.
type domain struct {
	at *resource.Vertex // nil for the nodes that stand below none
	// cell is the vertex's index in the partition of its level; -1 for none.
	cell int32
	// order are the positions of its nodes, in the order in which they are to be
	// used.
	order []int32
	// room is by shape how many slots fit, with each counted as if it were alone; sum
	// adds them up, and useful bounds how many of those wanted fit together. Where there
	// are several shapes, room goes on with what there is of each need, and with how
	// many slots fit if each were the smallest. Rooms of domains add up.
	room        []int64
	sum, useful int64
	// distance is that of the node that is closest to the near ones.
	distance int
}

// domains divides nodes by the level of an aim and counts what fits there. They are
// sorted by how well they serve: the closest to near nodes first, then the fullest,
// then by path.
func (t *quest) domains(order []int32, at int) []*domain {
	whole := len(order) == len(t.order)
	if known := t.whole[at]; whole && known != nil {
		return t.wanted(known)
	}
	found := t.divide(order, t.aims[at])
	for _, d := range found {
		if t.count(d); t.spent() {
			return nil
		}
	}
	t.budget -= len(order) * len(t.ask.shapes)
	t.owe(sortSteps * len(found))
	slices.SortFunc(found, func(x, y *domain) int {
		return cmp.Or(cmp.Compare(x.distance, y.distance), cmp.Compare(x.sum, y.sum), cmp.Compare(x.cell, y.cell))
	})
	if whole {
		if t.whole == nil {
			t.whole = make(map[int][]*domain)
		}
		t.whole[at] = found
	}
	return t.wanted(found)
}

// wanted works out of how many slots that are wanted a domain could have room for.
func (t *quest) wanted(domains []*domain) []*domain {
	if !t.charge(len(domains) * len(t.ask.shapes) / needsPerStep) {
		return domains
	}
	for _, d := range domains {
		d.useful = 0
		for s := range t.ask.shapes {
			d.useful += min(d.room[s], t.ask.shapes[s].count.Min)
		}
		d.useful = min(d.useful, d.room[len(d.room)-1])
	}
	return domains
}

// divide divides nodes by the level of an aim. What stands below no vertex of the
// level is a domain of its own where slots are only to stand on few, and else left
// out.
func (t *quest) divide(order []int32, x aim) []*domain {
	p := t.graph.partition(x.kind)
	if !t.charge(3*len(order) + len(p.vertices)) {
		return nil
	}
	sizes := make([]int32, len(p.vertices)+1)
	for _, at := range order {
		sizes[p.of[at]+1]++
	}
	positions := make([]int32, 0, len(order))
	all := make([]domain, len(sizes))
	var found []*domain
	for c, n := range sizes {
		if n == 0 || c == 0 && x.rule != few {
			continue
		}
		d := &all[c]
		d.cell = int32(c) - 1
		if c > 0 {
			d.at = p.vertices[c-1]
		}
		d.order = positions[len(positions) : len(positions) : len(positions)+int(n)]
		positions = positions[:len(positions)+int(n)]
		found = append(found, d)
	}
	for _, at := range order {
		if d := &all[p.of[at]+1]; cap(d.order) > 0 {
			d.order = append(d.order, at)
		}
	}
	if t.marked {
		for _, d := range found {
			d.distance = t.distance[d.order[0]]
		}
	}
	return found
}

// count counts what fits in a domain, never too few slots.
func (t *quest) count(d *domain) {
	b := t.on(d.order)
	d.room = make([]int64, len(t.ask.shapes))
	b.start(t.view)
	for s := range d.room {
		if !t.charge(len(d.order) * t.steps(s)) {
			continue
		}
		if !t.fill[s] {
			for i := range b.order {
				d.room[s] += b.fits(s, i, maxSlots)
			}
		} else {
			b.start(t.view)
			d.room[s] = b.lay(s, maxSlots)
			b.start(t.view)
		}
		d.sum = plus(d.sum, d.room[s])
	}
	if len(d.room) > 1 {
		all, slots := b.joint(t.view)
		d.room = append(append(d.room, all...), slots)
	}
}

// joint returns how much there is of each need for all shapes together, and bounds how
// many slots that is enough for.
func (b *board) joint(v view) (all []int64, slots int64) {
	b.start(v)
	all, slots = b.capacity(), math.MaxInt64
	if !b.charge(len(all) * len(b.ask.shapes) / needsPerStep) {
		return all, slots
	}
	for k, have := range all {
		least := int64(math.MaxInt64)
		for _, s := range b.ask.shapes {
			least = min(least, s.each[k])
		}
		if least > 0 {
			slots = min(slots, have/least)
		}
	}
	return all, slots
}

// wants returns what is wanted of each room of a domain, for the least of every shape.
func (t *quest) wants() []int64 {
	a := t.ask
	t.owe(len(a.needs) * len(a.shapes) / needsPerStep)
	want := make([]int64, len(a.shapes))
	total := int64(0)
	for i, s := range a.shapes {
		want[i] = s.count.Min
		total += s.count.Min
	}
	if len(a.shapes) == 1 {
		return want
	}
	for k := range a.needs {
		sum := int64(0)
		for _, s := range a.shapes {
			sum = plus(sum, times(s.count.Min, s.each[k]))
		}
		want = append(want, sum)
	}
	return append(want, total)
}

// serves says whether the domain alone may have room for all slots.
func (d *domain) serves(want []int64) bool {
	for s, n := range d.room {
		if n < want[s] {
			return false
		}
	}
	return true
}

// union returns the nodes of some domains, in the order in which they are to be
// used.
func (t *quest) union(domains []*domain) []int32 {
	if len(domains) == 1 {
		return domains[0].order
	}
	var order []int32
	for _, d := range domains {
		t.owe(sortSteps * len(d.order))
		order = append(order, d.order...)
	}
	slices.SortFunc(order, func(x, y int32) int { return cmp.Compare(t.index[x], t.index[y]) })
	return order
}

// name returns the name of the domain's vertex.
func (d *domain) name() string {
	if d == nil || d.at == nil {
		return ""
	}
	return d.at.Name
}
