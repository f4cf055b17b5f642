package engine

import (
	"cmp"
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/match"
)

// maxProtected bounds Unit.Protected in sums, so that they do not overflow.
const maxProtected = 1 << 40

// A harm is what sets of units are compared by before costs and indices, level by level, the first
// level first: the protected slots and then, for each class from the highest to the lowest, the units
// of several slots and the slots. See match.Request.Displace.
type harm []int64

// A harmScale measures the harm of sets of units.
type harmScale struct {
	units []match.Unit
	held  []store.HeldUnit
	// first has by unit the index of the two levels of its class.
	first []int32
	// levels is the number of levels.
	levels int
}

func newHarmScale(units []match.Unit, held []store.HeldUnit) *harmScale {
	classes := make([]int32, len(units))
	for i := range units {
		classes[i] = units[i].Class
	}
	slices.Sort(classes)
	classes = slices.Compact(classes)
	h := &harmScale{units: units, held: held, first: make([]int32, len(units)), levels: 1 + 2*len(classes)}
	for i := range units {
		rank, _ := slices.BinarySearch(classes, units[i].Class)
		h.first[i] = int32(1 + 2*(len(classes)-1-rank))
	}
	return h
}

// add adds the harm of a unit.
func (h *harmScale) add(to harm, u int32) {
	to[0] += min(h.units[u].Protected, maxProtected)
	if h.held[u].Slots > 1 {
		to[h.first[u]]++
	}
	to[h.first[u]+1] += h.held[u].Slots
}

// of returns the harm of a set.
func (h *harmScale) of(set []int32) harm {
	sum := make(harm, h.levels)
	for _, u := range set {
		h.add(sum, u)
	}
	return sum
}

// compare compares two sets of units, each in ascending order, by the harm that they do.
func (h *harmScale) compare(x, y []int32) int {
	return cmp.Or(slices.Compare(h.of(x), h.of(y)), cmp.Compare(h.maxCost(x), h.maxCost(y)), slices.Compare(x, y))
}

// maxCost returns the largest cost of a set; the smallest number for the empty set.
func (h *harmScale) maxCost(set []int32) int64 {
	var most int64
	for i, u := range set {
		if c := h.units[u].Cost; i == 0 || c > most {
			most = c
		}
	}
	return most
}

// compareUnits compares two units as sets of one unit. Of units that do the same harm and have the same
// cost, the one with the larger index is more.
func (h *harmScale) compareUnits(x, y int32) int {
	return cmp.Or(
		cmp.Compare(min(h.units[x].Protected, maxProtected), min(h.units[y].Protected, maxProtected)),
		cmp.Compare(h.first[y], h.first[x]),
		cmp.Compare(min(h.held[x].Slots, 2), min(h.held[y].Slots, 2)),
		cmp.Compare(h.held[x].Slots, h.held[y].Slots),
		cmp.Compare(h.units[x].Cost, h.units[y].Cost),
		cmp.Compare(x, y),
	)
}

// tier returns the tier of a unit: its class or, if it has protected slots, the tier above all classes.
func (h *harmScale) tier(u int32) int64 {
	if h.units[u].Protected > 0 {
		return 1 << 32
	}
	return int64(h.units[u].Class)
}

// A price is the harm of a few units: the levels that are not 0, in ascending order.
type price []priceLevel

type priceLevel struct {
	level int32
	n     int64
}

// priceOf returns the price of a set.
func (h *harmScale) priceOf(set []int32) price {
	var p price
	for _, u := range set {
		if n := min(h.units[u].Protected, maxProtected); n > 0 {
			p = append(p, priceLevel{0, n})
		}
		if h.held[u].Slots > 1 {
			p = append(p, priceLevel{h.first[u], 1})
		}
		p = append(p, priceLevel{h.first[u] + 1, h.held[u].Slots})
	}
	slices.SortFunc(p, func(x, y priceLevel) int { return cmp.Compare(x.level, y.level) })
	merged := p[:0]
	for _, x := range p {
		if n := len(merged); n > 0 && merged[n-1].level == x.level {
			merged[n-1].n += x.n
		} else {
			merged = append(merged, x)
		}
	}
	return merged
}

// comparePrices compares two prices per slot: x for n slots and y for m slots.
func comparePrices(x price, n int64, y price, m int64) int {
	for len(x) > 0 && len(y) > 0 {
		switch {
		case x[0].level < y[0].level:
			return 1
		case x[0].level > y[0].level:
			return -1
		}
		if c := cmp.Compare(float64(x[0].n)*float64(m), float64(y[0].n)*float64(n)); c != 0 {
			return c
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Compare(len(x), len(y))
}
