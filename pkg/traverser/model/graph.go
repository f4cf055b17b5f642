package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const containment = "containment"

// touches is how many jobs may touch one vertex at a time.
const touches = 0x40000000

// A vertex is a resource pool and what is booked of it.
type vertex struct {
	typ, basename, name string
	id, uniq, rank      int64
	size                int64
	down                bool
	properties          map[string]string
	paths               map[string]string
	label               string // of the last labelled request that it was given to: it stays

	out []*edge // of the containment subsystem, in the order of the file
	up  *edge   // by which a walk from the root first comes here; nil at the root

	own  spans // of its size
	used spans // one for every job that holds something at or below it
	// below tracks by type what there is below the vertex; nil for a leaf.
	below map[string]*total
	order []string // the types of below
}

// A total is the amount of one type below a vertex.
type total struct {
	ever bool // something was booked once
	size int64
	spans
}

// An edge leads to a child. Its weight orders the children under first.
type edge struct {
	from, to *vertex
	weight   uint64
}

// A graph is the vertices in the order of the file, and the tables about types.
type graph struct {
	vertices []*vertex
	root     *vertex
	number   map[string]int             // types as they were first heard of
	filters  map[string]map[string]bool // what is tracked, by the type it is tracked at or ALL
	tracked  map[string]bool            // types tracked anywhere
}

// always are the types that are known before any graph is read.
var always = []string{"cluster", "core", "socket", "gpu", "node", "rack", "slot"}

func (g *graph) intern(typ string) {
	if _, ok := g.number[typ]; !ok {
		g.number[typ] = len(g.number)
	}
}

// load reads a graph and makes the tables of the filters (HIGH:low,...).
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

type jgf struct {
	Graph *struct {
		Nodes *[]jgfNode `json:"nodes"`
		Edges *[]jgfEdge `json:"edges"`
	} `json:"graph"`
}

type jgfNode struct {
	ID       *string `json:"id"`
	Metadata *struct {
		Type       *string            `json:"type"`
		Basename   *string            `json:"basename"`
		Name       *string            `json:"name"`
		ID         *int64             `json:"id"`
		UniqID     *int64             `json:"uniq_id"`
		Rank       *int64             `json:"rank"`
		Size       *int64             `json:"size"`
		Status     *int64             `json:"status"`
		Unit       *string            `json:"unit"`
		Exclusive  *bool              `json:"exclusive"`
		Properties map[string]string  `json:"properties"`
		Paths      *map[string]string `json:"paths"`
	} `json:"metadata"`
}

type jgfEdge struct {
	Source   *string `json:"source"`
	Target   *string `json:"target"`
	Metadata *struct {
		Subsystem *string `json:"subsystem"`
	} `json:"metadata"`
}

func (g *graph) read(text []byte) error {
	var doc jgf
	if err := json.Unmarshal(text, &doc); err != nil {
		return err
	}
	if doc.Graph == nil || doc.Graph.Nodes == nil || doc.Graph.Edges == nil {
		return errors.New("graph: graph, nodes or edges is missing")
	}
	byID := map[string]*vertex{}
	for i := range *doc.Graph.Nodes {
		if err := g.node(&(*doc.Graph.Nodes)[i], byID); err != nil {
			return fmt.Errorf("graph: node %d: %w", i, err)
		}
	}
	for i, e := range *doc.Graph.Edges {
		if err := g.edge(e, byID); err != nil {
			return fmt.Errorf("graph: edge %d: %w", i, err)
		}
	}
	return nil
}

var (
	leading  = regexp.MustCompile(`^\s*([+-]?\d+)`)
	trailing = regexp.MustCompile(`\d+$`)
)

func (g *graph) node(n *jgfNode, byID map[string]*vertex) error {
	if n.ID == nil || n.Metadata == nil || n.Metadata.Type == nil || n.Metadata.Paths == nil {
		return errors.New("id, metadata, type or paths is missing")
	}
	m := n.Metadata
	if _, twice := byID[*n.ID]; twice {
		return fmt.Errorf("id %q: there twice", *n.ID)
	}
	v := &vertex{typ: *m.Type, rank: or(m.Rank, -1), size: or(m.Size, 1), properties: m.Properties, paths: *m.Paths}
	v.down = or(m.Status, 0) == 1
	v.basename = or(m.Basename, v.typ)
	if m.UniqID != nil {
		v.uniq = *m.UniqID
	} else {
		digits := leading.FindStringSubmatch(*n.ID)
		if digits == nil {
			return fmt.Errorf("id %q: neither a number nor a uniq_id beside it", *n.ID)
		}
		v.uniq, _ = strconv.ParseInt(digits[1], 10, 64)
	}
	v.id = or(m.ID, v.uniq)
	if m.ID == nil && v.typ == "node" && m.Name != nil {
		if digits := trailing.FindString(*m.Name); digits != "" {
			v.id, _ = strconv.ParseInt(digits, 10, 64)
		}
	}
	v.name = or(m.Name, v.basename+strconv.FormatInt(v.id, 10))
	if v.size < 0 {
		return fmt.Errorf("size %d: less than 0", v.size)
	}
	path := v.paths[containment]
	for _, w := range g.vertices {
		if path != "" && w.paths[containment] == path && w.rank == v.rank {
			byID[*n.ID] = w
			return nil
		}
	}
	if strings.Count(path, "/") == 1 {
		if g.root != nil {
			return fmt.Errorf("path %q: a second root", path)
		}
		g.root = v
	}
	g.intern(v.typ)
	g.vertices = append(g.vertices, v)
	byID[*n.ID] = v
	return nil
}

func (g *graph) edge(e jgfEdge, byID map[string]*vertex) error {
	if e.Source == nil || e.Target == nil {
		return errors.New("source or target is missing")
	}
	from, to := byID[*e.Source], byID[*e.Target]
	if from == nil || to == nil {
		return fmt.Errorf("%s -> %s: an end is not there", *e.Source, *e.Target)
	}
	if e.Metadata != nil && e.Metadata.Subsystem != nil && *e.Metadata.Subsystem != containment {
		return nil
	}
	for _, other := range from.out {
		if other.to.uniq == to.uniq {
			return fmt.Errorf("%s -> %s: there is a child of this uniq_id", *e.Source, *e.Target)
		}
	}
	from.out = append(from.out, &edge{from: from, to: to, weight: ^uint64(0)})
	return nil
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// track reads the filters. Beside what they say, the root tracks the types of
// all leaves.
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

// prime finds the way up and the totals below of every vertex; it returns what
// of each tracked type stands at u and below.
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

// A span is an amount that a job holds for a time.
type span struct {
	start, end, amount int64
	job                uint64
}

type spans []span

// peak is the most that is held at any time of [start, end).
func (s spans) peak(start, end int64) int64 {
	held := func(t int64) (n int64) {
		for _, x := range s {
			if x.start <= t && t < x.end {
				n += x.amount
			}
		}
		return n
	}
	most := held(start)
	for _, x := range s {
		if start < x.start && x.start < end {
			most = max(most, held(x.start))
		}
	}
	return most
}

func (s *spans) drop(job uint64) {
	*s = slices.DeleteFunc(*s, func(x span) bool { return x.job == job })
}
