package traverser

import (
	"cmp"
	"slices"
)

// exploreEarly visits children by the weight of their edge and their
// UniqID, both descending. It stops when enough of everything is found.
func (a *attempt) exploreEarly(v *visit, exclusive bool, depth int) {
	goals := make([]goal, 0, 4)
	times := int64(1)
	if v.slot != nil {
		times = v.slot.most
	}
	for i := range v.next.list {
		r := &v.next.list[i]
		goals = append(goals, goal{typ: r.typ, need: r.most, times: times})
	}
	for c := range v.in.byWeight(a.g) {
		if met(goals, typeID(a.g.typ[c])) {
			continue
		}
		a.visitChild(c, v, exclusive, depth)
		f := &a.frames[depth]
		all := true
		for i := range goals {
			goals[i].reach(f.sum(goals[i].typ))
			all = all && goals[i].times <= 0
		}
		if all {
			return
		}
	}
}

// A goal is the amount of a type that is enough: a number of
// times the needed amount. Each time takes whole children.
type goal struct {
	typ   typeID
	need  int64
	times int64 // times that are still missing
	had   int64 // the sum when reach was last called
	got   int64 // the amount found for the next time
}

// reach updates the goal with the sum that is found now.
func (g *goal) reach(sum int64) {
	g.got += sum - g.had
	g.had = sum
	if g.got >= g.need && g.got > 0 {
		g.times--
		g.got = 0
	}
}

// met reports whether enough of a type is found.
func met(goals []goal, typ typeID) bool {
	for i := range goals {
		if goals[i].typ == typ {
			return goals[i].times <= 0
		}
	}
	return false
}

// byWeight returns the children by the weight of their edge and their UniqID, both descending.
func (in *inner) byWeight(g *graph) func(yield func(vid) bool) {
	return func(yield func(vid) bool) {
		if in.order == nil && in.ragged {
			in.arrange(g)
		}
		if in.order != nil {
			for _, c := range in.order {
				if !yield(c) {
					return
				}
			}
			return
		}
		for _, c := range slices.Backward(in.children) {
			if !yield(c) {
				return
			}
		}
	}
}

// arrange sorts the children by weight and UniqID.
func (in *inner) arrange(g *graph) {
	in.order = slices.Clone(in.children)
	slices.SortFunc(in.order, g.heavier)
}

// heavier compares two children of one vertex by the weight
// of their edge and their UniqID. The larger comes first.
func (g *graph) heavier(a, b vid) int {
	return cmp.Or(cmp.Compare(g.weight(b), g.weight(a)), cmp.Compare(g.uniq[b], g.uniq[a]))
}

// weight returns the weight of the edge to a vertex. The weight for a leaf never changes.
func (g *graph) weight(u vid) uint64 {
	if in := g.in(u); in != nil {
		return in.weight
	}
	return 1<<64 - 1
}

// reweigh changes the weight of the edge to u.
func (g *graph) reweigh(u vid, weight uint64) {
	in := g.in(u)
	if in.weight == weight || g.parent[u] == none {
		in.weight = weight
		return
	}
	above := g.in(g.parent[u])
	if above.order == nil {
		above.arrange(g)
	}
	at, _ := slices.BinarySearchFunc(above.order, u, g.heavier)
	above.order = slices.Delete(above.order, at, at+1)
	in.weight = weight
	at, _ = slices.BinarySearchFunc(above.order, u, g.heavier)
	above.order = slices.Insert(above.order, at, u)
}
