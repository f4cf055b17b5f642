package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const containment = "containment"

// A vertex is a resource pool and what is booked of it.
type vertex struct {
	typ, basename, name string
	id, uniq, rank      int64
	size                int64
	down                bool
	properties          map[string]string
	paths               map[string]string
	label               string // of the last labelled request that got it; stays

	out []*edge // in the containment subsystem, in the order of the file
	up  *edge   // the edge of the first visit in a walk from the root; nil at the root

	own  spans // bookings of its size
	used spans // one for each job that holds something at or below it
	// below is the totals of tracked types below the vertex, by type. It is nil for a leaf.
	below map[string]*total
	order []string // the types of below
}

// A total is the amount of one type below a vertex.
type total struct {
	ever bool // whether anything was ever booked
	size int64
	spans
}

// An edge leads to a child. Its weight orders the children under a policy that stops early.
type edge struct {
	from, to *vertex
	weight   uint64
}

// A graph is the vertices in the order of the file, and tables of types.
type graph struct {
	vertices []*vertex
	root     *vertex
	number   map[string]int             // types in the order of their first use
	filters  map[string]map[string]bool // the tracked types, by the type that tracks them, or ALL
	tracked  map[string]bool            // the types tracked anywhere
}

// always are the types that are known before any graph is read.
var always = []string{"cluster", "core", "socket", "gpu", "node", "rack", "slot"}

func (g *graph) intern(typ string) {
	if _, ok := g.number[typ]; !ok {
		g.number[typ] = len(g.number)
	}
}

// load reads a graph and builds the tables of the filters (HIGH:low,...).
func load(text []byte, filters string) (*graph, error) {
	g := &graph{number: map[string]int{}, filters: map[string]map[string]bool{}, tracked: map[string]bool{}}
	for _, t := range always {
		g.intern(t)
	}
	if err := g.read(text); err != nil {
		return nil, err
	}
	if g.root == nil {
		return nil, errors.New("graph: no vertex is the root of containment")
	}
	if err := g.track(filters); err != nil {
		return nil, err
	}
	g.prime(g.root, map[*vertex]bool{})
	return g, nil
}

// track reads the filters. In addition to them the root tracks the types of all leaves.
func (g *graph) track(filters string) error {
	add := func(high, low string) {
		if g.filters[high] == nil {
			g.filters[high] = map[string]bool{}
		}
		g.filters[high][low] = true
		g.tracked[low] = true
	}
	for filter := range strings.SplitSeq(filters, ",") {
		if filter == "" {
			continue
		}
		high, low, ok := strings.Cut(filter, ":")
		if !ok || high == "" || low == "" {
			return fmt.Errorf("prune_filters: %q: not of the form HIGH:low", filter)
		}
		if high != all {
			g.intern(high)
		}
		g.intern(low)
		add(high, low)
	}
	for _, v := range g.vertices {
		if len(v.out) == 0 {
			add(g.root.typ, v.typ)
		}
	}
	return nil
}

const all = "ALL"

// prime finds the way up and the totals of every vertex. It
// returns the amount of each tracked type at u and below.
func (g *graph) prime(u *vertex, seen map[*vertex]bool) map[string]int64 {
	seen[u] = true
	sums := map[string]int64{}
	for _, e := range u.out {
		if seen[e.to] {
			continue
		}
		e.to.up = e
		for t, n := range g.prime(e.to, seen) {
			sums[t] += n
		}
	}
	if len(u.out) > 0 {
		for t := range g.number {
			if (g.filters[all][t] && t != u.typ) || g.filters[u.typ][t] {
				if u.below == nil {
					u.below = map[string]*total{}
				}
				u.below[t] = &total{size: sums[t]}
				u.order = append(u.order, t)
			}
		}
		slices.SortFunc(u.order, func(a, b string) int { return g.number[a] - g.number[b] })
	}
	if g.tracked[u.typ] {
		sums[u.typ] += u.size
	}
	return sums
}
