package solver

import (
	"cmp"
	"math"
	"slices"
)

// SortSteps is the cost of sorting, in steps per element.
const SortSteps = 16

// A domain is the set of nodes below one vertex of a
// level. It has only nodes that the search considers.
type domain struct {
	level *Level
	// vertex is the index of the vertex in level.Names; -1
	// for the nodes that are below no vertex of the level.
	vertex int32
	// order has the positions of the nodes, in the order in which they are to be used.
	order []int32
	// room has three kinds of upper bounds, one after the other. They add up: the
	// bounds of a union of domains are the sums of the domains' bounds. First comes,
	// for each shape, how many of its slots fit if no other shape takes room. If
	// there are several shapes, two kinds follow: the total amount of each need, and
	// one number, how many slots fit if each were as small as the smallest.
	room []int64
	// total is the sum of the slots that fit, over all shapes. maxWantedSlots
	// is an upper bound on how many of the wanted slots fit together.
	total, maxWantedSlots int64
	// distance is the Problem.Distance of the closest node.
	distance int
}

// domains divides the nodes by the level with this index, and computes what fits in each domain. It
// sorts the domains by preference: the smallest distance first, then the least room, then the path.
func (t *topologySearch) domains(order []int32, level int) []*domain {
	wholeGraph := len(order) == len(t.order)
	if known := t.allDomains[level]; wholeGraph && known != nil {
		return t.countMaxWantedSlots(known)
	}
	found := t.divide(order, &t.topology[level])
	for _, d := range found {
		if t.countRoom(d); t.IsExhausted() {
			return nil
		}
	}
	t.budget -= len(order) * len(t.shapes)
	t.Spend(SortSteps * len(found))
	slices.SortFunc(found, func(x, y *domain) int {
		return cmp.Or(cmp.Compare(x.distance, y.distance), cmp.Compare(x.total, y.total), cmp.Compare(x.vertex, y.vertex))
	})
	if wholeGraph {
		if t.allDomains == nil {
			t.allDomains = make(map[int][]*domain)
		}
		t.allDomains[level] = found
	}
	return t.countMaxWantedSlots(found)
}

// countMaxWantedSlots computes maxWantedSlots of each domain. It returns the domains.
func (t *topologySearch) countMaxWantedSlots(domains []*domain) []*domain {
	if !t.Charge(len(domains) * len(t.shapes) / needsPerStep) {
		return domains
	}
	for _, d := range domains {
		d.maxWantedSlots = 0
		for s := range t.shapes {
			d.maxWantedSlots += min(d.room[s], t.shapes[s].Count.Min)
		}
		d.maxWantedSlots = min(d.maxWantedSlots, d.room[len(d.room)-1])
	}
	return domains
}

// divide groups the nodes by their domain of a level. The nodes below no vertex of the level
// form one more domain if the rule is FewestDomains. Under other rules they are left out.
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
		d.level, d.vertex = x, int32(c)-1
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

// countRoom computes the fields room and total of a domain.
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

// jointRoom returns the total amount of each need for all shapes together,
// and an upper bound on the slots that these amounts are enough for.
func jointRoom(b *Layout, v View) (all []int64, slots int64) {
	b.start(v)
	all, slots = b.totals(), math.MaxInt64
	if !b.Charge(len(all) * len(b.shapes) / needsPerStep) {
		return all, slots
	}
	for k, have := range all {
		least := int64(math.MaxInt64)
		for _, s := range b.shapes {
			least = min(least, s.AmountPerSlot[k])
		}
		if least > 0 {
			slots = min(slots, have/least)
		}
	}
	return all, slots
}

// wantedRoom returns what the minimum counts of all
// shapes take. The slice has the form of domain.room.
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
			sum = SatAdd(sum, SatMul(s.Count.Min, s.AmountPerSlot[k]))
		}
		want = append(want, sum)
	}
	return append(want, total)
}

// mayHold reports whether all slots may fit in the domain
// alone. It returns false if they surely do not fit.
func (d *domain) mayHold(want []int64) bool {
	for s, n := range d.room {
		if n < want[s] {
			return false
		}
	}
	return true
}

// union returns the nodes of all these domains, in the order in which they are to be used.
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

// name returns the name of the domain's vertex. It
// returns "" for nil, and for nodes below no vertex.
func (d *domain) name() string {
	if d == nil || d.vertex < 0 {
		return ""
	}
	return d.level.Names[d.vertex]
}
