package engine

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
)

// A displacer searches for the units of least harm whose end makes room on some of the nodes.
type displacer struct {
	*overlay
	scale   *harmScale
	counter *solver.FitCounter
	problem *solver.Problem
	layout  *solver.Layout
	order   []int32
	// level is the index of the first level of the topology that the displacer has to keep.
	level int
	// inside reports, by index of an occupied node, whether the node is one of the displacer's.
	inside []bool
	// units are the units that hold something on these nodes, the most important first.
	units []int32
	// unitsOn lists, by index of an occupied node, the units there, the least important first, and partsOn their parts
	// there.
	unitsOn [][]int32
	partsOn [][]*store.UnitPart
	// The units of the tier lowest and of the tiers below it are enough. Those of the tiers below it alone are not.
	lowest int64
	// forbidden is a unit that no offer has; -1 for none.
	forbidden int32
	// alone has, by unit, the room that its end alone makes. It is forgotten when other units go or the raise changes.
	alone map[int32]int64
	// best is the best set so far, in ascending order. found reports whether there is one.
	best  []int32
	found bool
}

// maxSolvedUnits is the number of units up to which a displacer searches for a placement without each of them, if what
// fits cannot be counted.
const maxSolvedUnits = 64

// maxRaises is how often a displacer raises the number of slots to make room for, if there is no placement
// although there is enough room by number.
const maxRaises = 12

// charge takes the steps for removing a unit, or for putting it back.
func (d *displacer) charge(u int32) { d.counter.SpendCounts(d.steps(u), len(d.held.Units[u].Parts)) }

// remove and putBack charge the steps that the methods of overlay take.
func (d *displacer) remove(u int32)  { d.charge(u); d.overlay.remove(u) }
func (d *displacer) putBack(u int32) { d.charge(u); d.overlay.putBack(u) }

// putAllBack puts all units back.
func (d *displacer) putAllBack() {
	for _, u := range d.units {
		if d.gone[u] {
			d.putBack(u)
		}
	}
}

// fits reports whether the request fits without the units that have gone, as far as that can be found out.
func (d *displacer) fits() bool {
	switch {
	case d.counter.IsExhausted() || !d.counter.MayFit():
		return false
	case d.counter.IsExact():
		return true
	}
	return d.counter.Fits() && !d.counter.IsExhausted()
}

// room returns how many wanted slots fit, each shape counted as if it were alone.
func (d *displacer) room(raise float64) int64 {
	sum := int64(0)
	for s := range d.problem.Shapes {
		want := d.problem.Shapes[s].Count.Min
		if raise > 0 {
			want = int64(raise * float64(want))
		} else {
			want = solver.MaxSlots << 20
		}
		sum += min(d.counter.Sum(s), want)
	}
	return sum
}

// search searches for sets of units, and keeps the best.
func (d *displacer) search() {
	d.begin()
	if !d.removeLowest() {
		d.putAllBack()
		return
	}
	if d.counter.IsExact() || len(d.units) <= maxSolvedUnits {
		d.keep(d.fromEverything())
	} else {
		d.fromCheapNodes()
	}
	d.putAllBack()
	if d.addCheapest() {
		d.keep(d.reduce())
	}
	d.putAllBack()
}

// refine searches for better sets than the best, with more work. It tries all sets of up to this many units.
func (d *displacer) refine(exhaustiveUnits int) {
	d.begin()
	switch n := len(d.units); {
	case n <= exhaustiveUnits:
		d.tryAll()
	case n <= maxSolvedUnits:
		for d.improve() {
		}
	}
	d.putAllBack()
}

// improve searches for a better set that lacks one unit of the best set and has others instead. It returns false
// if it finds none.
func (d *displacer) improve() bool {
	defer func() { d.forbidden = -1 }()
	best := d.best
	for _, u := range d.units {
		if _, in := slices.BinarySearch(best, u); !in {
			continue
		}
		d.forbidden = u
		for _, other := range d.units {
			switch _, in := slices.BinarySearch(best, other); {
			case in && other != u && !d.gone[other]:
				d.remove(other)
			case (!in || other == u) && d.gone[other]:
				d.putBack(other)
			}
		}
		if !d.addCheapest() {
			continue
		}
		if d.keep(d.reduce()); !slices.Equal(best, d.best) {
			return true
		}
	}
	return false
}

// begin makes the overlay report its changes to this displacer.
func (d *displacer) begin() {
	d.counter.Restart()
	d.changed = func(at int32) {
		if d.inside[at] {
			d.counter.Count(int(d.held.Nodes[at].At))
		}
	}
}

// removeLowest removes the units of the lowest tiers that are enough, and drops the others from the units.
// It returns false if all units are not enough.
func (d *displacer) removeLowest() bool {
	byTier := slices.Clone(d.units)
	slices.Reverse(byTier)
	slices.SortStableFunc(byTier, func(x, y int32) int { return cmp.Compare(d.scale.tier(x), d.scale.tier(y)) })
	var ends []int
	for i, u := range byTier {
		if i+1 == len(byTier) || d.scale.tier(byTier[i+1]) != d.scale.tier(u) {
			ends = append(ends, i+1)
		}
	}
	removed, from := 0, 0
	setTo := func(end int) {
		for ; removed < end; removed++ {
			d.remove(byTier[removed])
		}
		for ; removed > end; removed-- {
			d.putBack(byTier[removed-1])
		}
	}
	for ; from < len(ends); from++ {
		if setTo(ends[from]); d.counter.MayFit() {
			break
		}
	}
	if from == len(ends) {
		return false
	}
	low, high := from, len(ends)-1
	for low < high {
		middle := (low + high) / 2
		if setTo(ends[middle]); d.fits() {
			high = middle
		} else {
			low = middle + 1
		}
	}
	if setTo(ends[high]); !d.fits() {
		return false
	}
	if d.lowest = -1; removed > 0 {
		d.lowest = d.scale.tier(byTier[removed-1])
	}
	d.units = slices.DeleteFunc(d.units, func(u int32) bool { return d.scale.tier(u) > d.lowest })
	return true
}

// keep keeps a set if it does less harm than the best.
func (d *displacer) keep(set []int32) {
	set = slices.Clone(set)
	slices.Sort(set)
	if !d.counter.IsExhausted() && (!d.found || d.scale.compare(set, d.best) < 0) {
		d.best, d.found = set, true
	}
}

// reduce puts back units, the most important first, as long as the request fits. It returns the others.
func (d *displacer) reduce() []int32 {
	var set []int32
	for _, u := range d.units {
		if d.gone[u] {
			set = append(set, u)
		}
	}
	return slices.DeleteFunc(set, d.reduceBy)
}

// reduceBy puts a unit back if the request fits then.
func (d *displacer) reduceBy(u int32) bool {
	d.putBack(u)
	if d.fits() {
		return true
	}
	d.remove(u)
	return false
}

// fromEverything begins with all units away, and puts units back. It takes the most important layer first, and in
// a layer the units that make the least room. It returns the units that stay away.
func (d *displacer) fromEverything() []int32 {
	var set []int32
	for rest := d.units; len(rest) > 0; {
		n := 1
		for n < len(rest) && d.sameLayer(rest[0], rest[n]) {
			n++
		}
		layer := slices.Clone(rest[:n])
		rest = rest[n:]
		if n > 1 {
			loss := make(map[int32]int64, n)
			for _, u := range layer {
				before := d.room(0)
				d.putBack(u)
				loss[u] = before - d.room(0)
				d.remove(u)
			}
			slices.SortStableFunc(layer, func(x, y int32) int { return cmp.Compare(loss[x], loss[y]) })
		}
		set = append(set, slices.DeleteFunc(layer, d.reduceBy)...)
	}
	return set
}

// sameLayer reports whether two units differ only in the number of their slots, their cost and their index.
func (d *displacer) sameLayer(x, y int32) bool {
	h := d.scale
	return h.units[x].Protected == h.units[y].Protected && h.first[x] == h.first[y] && (h.held[x].Slots > 1) == (h.held[y].Slots > 1)
}

// fromCheapNodes tries one placement that prefers the nodes where room does the least harm.
func (d *displacer) fromCheapNodes() {
	d.putAllBack()
	offers := make(map[int32]*offer)
	clear(d.alone)
	for at, inside := range d.inside {
		if inside {
			if o := d.offer(int32(at), 1); o != nil {
				offers[d.held.Nodes[at].At] = o
			}
		}
	}
	order := slices.Clone(d.order)
	d.counter.Spend(solver.SortSteps * len(order))
	slices.SortStableFunc(order, func(x, y int32) int {
		a, b := offers[x], offers[y]
		switch {
		case a == nil && b == nil:
			return 0
		case a == nil:
			return -1
		case b == nil:
			return 1
		}
		return comparePrices(a.price, a.gain, b.price, b.gain)
	})
	for _, u := range d.units {
		d.remove(u)
	}
	l := solver.Within(d.layout, order, d.level)
	if o, _ := l.SolveMin(solver.ViewNow); o != solver.Placed {
		d.counter.Restart()
		return
	}
	placed := d.place(l.Runs(), d.problem.Shapes, d.problem.Requester)
	d.counter.Restart()
	placed.giveBack(d.units)
	d.keep(d.reduce())
}

// An offer is a set of units on one node whose end makes room there.
type offer struct {
	node  int32
	units []int32
	price price
	gain  int64
	// made is the number of changes of the node when the offer was made.
	made int
}

// offers is a heap, the cheapest offer per slot first.
type offers []*offer

func (o offers) Len() int { return len(o) }
func (o offers) Less(i, j int) bool {
	c := comparePrices(o[i].price, o[i].gain, o[j].price, o[j].gain)
	return cmp.Or(c, cmp.Compare(o[i].node, o[j].node)) < 0
}
func (o offers) Swap(i, j int) { o[i], o[j] = o[j], o[i] }
func (o *offers) Push(x any)   { *o = append(*o, x.(*offer)) }
func (o *offers) Pop() any {
	last := (*o)[len(*o)-1]
	*o = (*o)[:len(*o)-1]
	return last
}

// mayOffer reports whether the end of all units on a node that may go makes room there.
func (d *displacer) mayOffer(at int32, raise float64, before int64) bool {
	n := 0
	apply := func(sign int64) {
		n = 0
		for i, u := range d.unitsOn[at] {
			if d.scale.tier(u) > d.lowest {
				break
			}
			if !d.gone[u] && u != d.forbidden {
				d.add(d.partsOn[at][i], sign)
				n++
			}
		}
		d.tell(at)
	}
	apply(1)
	gain := d.room(raise) - before
	apply(-1)
	d.counter.SpendCounts(2*n*(partSteps+len(d.needs)), 2)
	return gain > 0
}

// offer returns the offer of a node: the least important units there whose end makes room, without those
// that do not stand in the way. It is nil if there is none, or if room is made on other nodes only: these have offers.
func (d *displacer) offer(at int32, raise float64) *offer {
	before := d.room(raise)
	if !d.mayOffer(at, raise, before) {
		return nil
	}
	var set []int32
	gain, alone := int64(0), int64(0)
	for _, u := range d.unitsOn[at] {
		if d.scale.tier(u) > d.lowest || d.counter.IsExhausted() {
			break
		}
		if d.gone[u] || u == d.forbidden {
			continue
		}
		set = append(set, u)
		if alone = d.roomAlone(u, before, raise); alone > 0 {
			break
		}
	}
	var single []int32
	if alone > 0 {
		set, single = set[:len(set)-1], set[len(set)-1:]
	}
	for i, u := range set {
		d.remove(u)
		if gain = d.room(raise) - before; gain > 0 {
			set = set[:i+1]
			break
		}
	}
	if gain > 0 {
		last := len(set) - 1
		for i := last - 1; i >= 0; i-- {
			u := set[i]
			d.putBack(u)
			if more := d.room(raise) - before; more > 0 {
				set, gain = slices.Delete(set, i, i+1), more
			} else {
				d.remove(u)
			}
		}
	}
	for _, u := range set {
		d.putBack(u)
	}
	if gain <= 0 {
		set, gain = single, alone
	}
	if gain <= 0 {
		return nil
	}
	return &offer{node: at, units: set, price: d.scale.priceOf(set), gain: gain}
}

// roomAlone returns the room that the end of a unit alone makes. before is the room now. The answer is kept, because a
// unit is on many nodes.
func (d *displacer) roomAlone(u int32, before int64, raise float64) int64 {
	room, known := d.alone[u]
	if !known {
		d.remove(u)
		room = d.room(raise) - before
		d.putBack(u)
		d.alone[u] = room
	}
	return room
}

// addCheapest removes more units, the cheapest per slot first, until the request fits. It returns false if it does not
// fit then.
func (d *displacer) addCheapest() bool {
	raise := 1.0
	changes := make([]int, len(d.inside))
	for range maxRaises {
		var queue offers
		clear(d.alone)
		add := func(at int32) {
			if !d.inside[at] || len(d.unitsOn[at]) == 0 {
				return
			}
			if o := d.offer(at, raise); o != nil {
				o.made = changes[at]
				heap.Push(&queue, o)
			}
		}
		for at := range d.inside {
			add(int32(at))
		}
		for len(queue) > 0 && !d.enough(raise) && !d.counter.IsExhausted() {
			o := heap.Pop(&queue).(*offer)
			if o.made != changes[o.node] {
				continue
			}
			for _, u := range o.units {
				d.remove(u)
			}
			clear(d.alone)
			for _, u := range o.units {
				for _, p := range d.held.Units[u].Parts {
					changes[p.Node]++
				}
			}
			for _, u := range o.units {
				for i, p := range d.held.Units[u].Parts {
					if i < maxNewOffers || p.Node == o.node {
						add(p.Node)
					}
				}
			}
		}
		if d.fits() {
			return true
		}
		if d.counter.IsExact() || d.counter.IsExhausted() || len(queue) == 0 && raise > 4 {
			return false
		}
		raise *= 1.25
	}
	return false
}

// maxNewOffers is the maximum number of nodes of one unit for which new offers are made when it has gone.
const maxNewOffers = 8

// enough reports whether there is room by number.
func (d *displacer) enough(raise float64) bool {
	for s := range d.problem.Shapes {
		want := d.problem.Shapes[s].Count.Min
		if d.counter.Sum(s) < int64(raise*float64(want)) {
			return false
		}
	}
	return true
}
