package traverser

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-k8s/fluence/pkg/planner"
)

// hang turns the edges into a tree.
func (l *loading) hang() error {
	g := &l.g
	n := len(g.typ)
	g.parent, g.position, g.inside = make([]vid, n), make([]int32, n), make([]int32, n)
	g.plans = make([]planner.Plan, n)
	for u := range g.parent {
		g.parent[u], g.inside[u] = none, -1
	}
	children := l.adjacent()
	if err := l.checkSiblings(children); err != nil {
		return err
	}
	if err := l.climb(children); err != nil {
		return err
	}
	for u := range vid(n) {
		if u != g.root && g.parent[u] == none {
			l.leaveApart(u)
			continue
		}
		g.count++
		l.checkPath(u)
	}
	for u := range vid(n) { //nolint:gosec // fewer than maxVertices
		if in := g.in(u); in != nil {
			if err := l.checkPlaces(u, in.children); err != nil {
				return err
			}
		}
	}
	l.way = nil
	return nil
}

// leaveApart keeps the path of a vertex in odd.
func (l *loading) leaveApart(u vid) {
	g := &l.g
	g.flags[u] |= isOdd
	g.odd[u] = l.way[u]
}

// checkPath keeps the path of a vertex if it is not the parent's path and the vertex's name.
func (l *loading) checkPath(u vid) {
	above := ""
	if p := l.g.parent[u]; p != none {
		above = l.way[p]
	}
	path := l.way[u]
	if len(path) > len(above) && path[:len(above)] == above && path[len(above)] == '/' {
		rest := path[len(above)+1:]
		// A search for a path splits it at its slashes, so a name with a slash would be split too.
		slashed := strings.Contains(rest, "/")
		if name, own := l.g.names[u]; own && rest == name && !slashed {
			return
		} else if !own {
			l.scratch = strconv.AppendInt(append(l.scratch[:0], l.g.basename(u)...), l.g.id[u], 10)
			if rest == string(l.scratch) && !slashed {
				return
			}
		}
	}
	l.leaveApart(u)
}

// adjacent returns, for each vertex, the targets of its edges in their order.
func (l *loading) adjacent() [][]vid {
	count := make([]int32, len(l.g.typ))
	for _, s := range l.from {
		count[s]++
	}
	all := make([]vid, len(l.to))
	lists := make([][]vid, len(count))
	at := 0
	for s, n := range count {
		if n > 0 {
			lists[s] = all[at : at : at+int(n)]
			at += int(n)
		}
	}
	for i, s := range l.from {
		lists[s] = append(lists[s], l.to[i])
	}
	return lists
}

// climb walks the edges depth first from the root. The parent of
// a vertex is the vertex from which the walk first reaches it.
func (l *loading) climb(children [][]vid) error {
	g := &l.g
	type step struct {
		u    vid
		next int
	}
	stack := []step{{u: g.root}}
	for len(stack) > 0 {
		s := &stack[len(stack)-1]
		u := s.u
		if s.next == len(children[u]) {
			g.settle(u, children[u])
			stack = stack[:len(stack)-1]
			continue
		}
		c := children[u][s.next]
		s.next++
		if c != g.root && g.parent[c] == none && c != u {
			g.parent[c] = u
			if len(children[c]) == 0 {
				continue
			}
			if len(stack) >= maxDepth {
				return fmt.Errorf("vertex %d (%s): is deeper than %d levels", g.uniq[c], l.way[c], maxDepth)
			}
			stack = append(stack, step{u: c})
		}
	}
	return nil
}

// settle sets the children of a vertex: the targets of its edges whose parent it is.
func (g *graph) settle(u vid, to []vid) {
	g.flags[u] |= hasEdges
	kept := to[:0]
	var back []typeID
	for _, c := range to {
		if g.parent[c] == u {
			g.position[c] = int32(len(kept)) //nolint:gosec // fewer than maxVertices
			kept = append(kept, c)
		} else {
			back = append(back, typeID(g.typ[c]))
		}
	}
	g.inside[u] = int32(len(g.inner)) //nolint:gosec // fewer than maxVertices
	g.inner = append(g.inner, &inner{children: kept, back: back, weight: math.MaxUint64})
}

// checkSiblings fails if two children of one vertex have the same UniqID.
func (l *loading) checkSiblings(children [][]vid) error {
	for u, list := range children {
		if err := l.checkNumbers(vid(u), list); err != nil { //nolint:gosec // fewer than maxVertices
			return err
		}
	}
	return nil
}

// checkNumbers checks the children of one vertex. It needs no map if their UniqIDs rise.
func (l *loading) checkNumbers(u vid, list []vid) error {
	g := &l.g
	rises := true
	for i := 1; i < len(list) && rises; i++ {
		rises = g.uniq[list[i-1]] < g.uniq[list[i]]
	}
	if rises {
		return nil
	}
	numbers := make(map[int64]vid, len(list))
	for _, c := range list {
		other, taken := numbers[g.uniq[c]]
		switch {
		case taken && other == c:
			return fmt.Errorf("vertex %d (%s): has an edge to vertex %d (%s) twice", g.uniq[u], l.way[u], g.uniq[c], l.way[c])
		case taken:
			return fmt.Errorf("vertex %d (%s): has two children with the uniq_id %d, %s and %s",
				g.uniq[u], l.way[u], g.uniq[c], l.way[other], l.way[c])
		}
		numbers[g.uniq[c]] = c
	}
	return nil
}

// checkPlaces fails if two children have the same path and rank. It needs no map if
// ids rise type by type and decide names and paths, because the paths then differ.
func (l *loading) checkPlaces(u vid, list []vid) error {
	g := &l.g
	last := make([]sum, 0, 8)
	plain := true
	for _, c := range list {
		_, named := g.names[c]
		i := slices.IndexFunc(last, func(s sum) bool { return s.typ == typeID(g.typ[c]) })
		if i < 0 {
			i, last = len(last), append(last, sum{typeID(g.typ[c]), g.id[c] - 1})
		}
		if plain = plain && !named && g.flags[c]&isOdd == 0 && g.id[c] > last[i].amount; !plain {
			break
		}
		last[i].amount = g.id[c]
	}
	if plain {
		return nil
	}
	places := make(map[string]vid, len(list))
	for _, c := range list {
		if l.way[c] == "" {
			continue
		}
		at := strconv.FormatInt(g.rank[c], 10) + l.way[c]
		if other, taken := places[at]; taken {
			return fmt.Errorf("vertex %d (%s): has an edge to %s twice: vertices %d and %d have one path and rank",
				g.uniq[u], l.way[u], l.way[c], g.uniq[other], g.uniq[c])
		}
		places[at] = c
	}
	return nil
}
