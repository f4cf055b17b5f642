package traverser

import (
	"maps"
	"math"
	"slices"

	"github.com/flux-k8s/fluence/pkg/planner"
)

// prime computes, from the leaves up, the counts of what is below each vertex, and sets up the
// pruning filters. Nothing may be booked. Types that only a filter names are known afterwards.
func (g *graph) prime(f *filters) {
	for _, low := range f.everywhere {
		g.typeOf(low)
	}
	for _, high := range slices.Sorted(maps.Keys(f.at)) {
		g.typeOf(high)
		for _, low := range f.at[high] {
			g.typeOf(low)
		}
	}
	g.nodes, g.byPath = g.nodes[:0], nil
	g.primeBelow(g.root, f, make(map[typeID]bool))
}

// A sum is an amount of one type.
type sum struct {
	typ    typeID
	amount int64
}

// addSum adds an amount to the sum of its type.
func addSum(sums []sum, typ typeID, amount int64) []sum {
	for i := range sums {
		if sums[i].typ == typ {
			sums[i].amount += amount
			return sums
		}
	}
	return append(sums, sum{typ, amount})
}

// primeBelow returns the sums of the sizes below u by
// type. It adds the types of the leaves to leaves.
func (g *graph) primeBelow(u vid, f *filters, leaves map[typeID]bool) []sum {
	if typeID(g.typ[u]) == typeNode {
		g.nodes = append(g.nodes, u)
	}
	in := g.in(u)
	if in == nil {
		leaves[typeID(g.typ[u])] = true
		return nil
	}
	var below []sum
	in.leaves, in.below, in.touched = in.leaves[:0], slices.Clone(in.back), 0
	in.byName, in.order = nil, nil
	in.text, in.ends = "", nil
	last := int64(-1 << 63)
	in.ragged = false
	for _, c := range in.children {
		typ := typeID(g.typ[c])
		if !slices.Contains(in.below, typ) {
			in.below = append(in.below, typ)
		}
		if in.ragged = in.ragged || g.uniq[c] <= last; !in.ragged {
			last = g.uniq[c]
		}
		below = addSum(below, typ, g.size[c])
		if g.inside[c] >= 0 {
			in.touched++
			in.ragged = in.ragged || g.in(c).weight != math.MaxUint64
			for _, s := range g.primeBelow(c, f, leaves) {
				below = addSum(below, s.typ, s.amount)
			}
			continue
		}
		leaves[typ] = true
		if typ == typeNode {
			g.nodes = append(g.nodes, c)
		}
		if g.flags[c]&(isDown|isBooked) != 0 {
			in.touched++
		}
		in.leaves = addLeaf(in.leaves, typ, g.size[c])
	}
	in.free = g.filter(u, below, f, leaves)
	return below
}

// addLeaf adds a leaf to the tally of its type.
func addLeaf(leaves []tally, typ typeID, size int64) []tally {
	for i := range leaves {
		if t := &leaves[i]; t.typ == typ {
			t.count++
			t.sum += size
			if t.size != size {
				t.size = -1
			}
			return leaves
		}
	}
	return append(leaves, tally{typ: typ, count: 1, sum: size, size: size})
}

// filter returns the pruning filter of a vertex, or nil if it tracks no type. It
// tracks all types that the filters name for the vertex, except the vertex's own type,
// even if nothing of a type is below. At the root it also tracks every type of a leaf.
func (g *graph) filter(u vid, below []sum, f *filters, leaves map[typeID]bool) *aggregate {
	own := typeID(g.typ[u])
	tracked := below[:0:0]
	for _, low := range append(slices.Clip(f.everywhere), f.at[g.types[own]]...) {
		if typ := g.typeOf(low); typ != own {
			tracked = addSum(tracked, typ, 0)
		}
	}
	for _, s := range below {
		counted := slices.ContainsFunc(tracked, func(t sum) bool { return t.typ == s.typ })
		if counted || u == g.root && leaves[s.typ] {
			tracked = addSum(tracked, s.typ, s.amount)
		}
	}
	if len(tracked) == 0 {
		return nil
	}
	slices.SortFunc(tracked, func(a, b sum) int { return int(a.typ) - int(b.typ) })
	a := &aggregate{types: make([]typeID, len(tracked)), sums: make([]int64, len(tracked))}
	totals := make([]int64, len(tracked))
	for i, s := range tracked {
		a.types[i], totals[i] = s.typ, s.amount
	}
	a.plan = planner.NewMulti(totals)
	return a
}
