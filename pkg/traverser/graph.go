package traverser

import (
	"maps"
	"strconv"

	"github.com/flux-k8s/fluence/pkg/planner"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A vid is the index of a vertex in the graph.
type vid = int32

// none is the vid of no vertex.
const none vid = -1

// A typeID is the index of a type's name in the order in which the
// names were first seen. Sets of types are sorted by it, as in Fluxion.
type typeID = int32

// These types are known before there is a graph.
const (
	typeCluster typeID = iota
	typeCore
	typeSocket
	typeGPU
	typeNode
	typeRack
	typeSlot
)

// firstTypes lists their names in the same order.
var firstTypes = []string{resource.TypeCluster, "core", "socket", "gpu", resource.TypeNode, "rack", "slot"}

// A vertex has these marks.
const (
	isDown   uint8 = 1 << iota
	isBooked       // something is booked in its plans, at any time
	isOdd          // its path is not the parent's path and its name, or the name has a slash
	hasEdges       // it has a child, or an edge back to a vertex above it
)

// A graph is the containment tree. Its vertices are in the order in
// which they were read. A field that nearly every vertex has is a slice
// with one element per vertex. A field that few vertices have is a map.
type graph struct {
	types   []string
	typeIDs map[string]typeID
	root    vid
	count   int   // of the vertices that containment reaches
	nodes   []vid // the vertices of type node, in the order of a walk
	total   int64 // the sum of all sizes; at most maxTotal

	typ      []uint16
	flags    []uint8
	parent   []vid
	position []int32 // the index in the parent's children
	inside   []int32 // the index into inner; -1 for a vertex without children
	id       []int64
	uniq     []int64
	rank     []int64
	size     []int64
	plans    []planner.Plan // by vertex: the bookings of its own amount

	inner      []*inner
	basenames  map[vid]string // if it is not the type
	names      map[vid]string // if it is not the basename and the id
	units      map[vid]string
	exclusive  map[vid]bool
	properties map[vid]map[string]string
	odd        map[vid]string            // the paths of odd vertices (see isOdd)
	byPath     map[string][]vid          // the odd vertices by path; nil until it is needed
	paths      map[vid]map[string]string // in other subsystems
	// labels has the last label under which a vertex was given
	// out. It stays after the vertex is released, as in Fluxion.
	labels map[vid]string

	// aside has the edges of other subsystems.
	aside []aside
}

// An aside is an edge of a subsystem that is not walked.
type aside struct {
	from, to  vid
	subsystem string
}

// An inner has the fields that only a vertex with children has.
type inner struct {
	children []vid // in the order of the edges
	// back has the types of the vertices to which it has edges back.
	back []typeID
	// leaves has, by type, the sizes and counts of the children that are leaves.
	leaves []tally
	// below has the types of the children, and of the vertices in back.
	below []typeID
	// touched is the number of children that are down or booked, or that are no leaves.
	touched int32
	// use is the number of jobs that hold something here or below, over time (Fluxion's x-checker).
	use planner.Plan
	// free has the amounts of the tracked types below; nil if no type is tracked.
	free *aggregate
	// weight is the weight of the edge to this vertex.
	weight uint64
	// order has the children by weight and UniqID, both descending.
	// It is nil while that is the reverse order of the edges.
	order []vid
	// ragged is set if the weights fall, or the UniqIDs do not rise, along the edges.
	ragged bool
	// byName has the children by name; of children with the
	// same name, the first. It is nil until it is needed.
	byName map[string]vid
	// twins has the children whose name an earlier child has.
	twins []vid
	// text has the paths of the children, one after another. It is empty until it is needed.
	text string
	// ends has, by child, where its path ends in text. It is nil until it is needed.
	ends []int
}

// A tally counts the leaves of one type among the children of a vertex.
type tally struct {
	typ   typeID
	count int64
	sum   int64
	size  int64 // of each leaf; -1 if the sizes differ
}

// An aggregate is the pruning filter of a vertex: how
// much of some types is free below the vertex, over time.
type aggregate struct {
	types []typeID // ascending
	plan  *planner.Multi
	// booked is set if something was ever booked here.
	booked bool
	// sums adds up what a job holds below, while open is set.
	sums []int64
	open bool
}

func newGraph() graph {
	g := graph{
		root: none, typeIDs: make(map[string]typeID),
		basenames: make(map[vid]string), names: make(map[vid]string), units: make(map[vid]string),
		exclusive: make(map[vid]bool), properties: make(map[vid]map[string]string),
		odd: make(map[vid]string), paths: make(map[vid]map[string]string), labels: make(map[vid]string),
	}
	for _, name := range firstTypes {
		g.typeOf(name)
	}
	return g
}

// typeOf returns the number of a type. A new type gets the next number.
func (g *graph) typeOf(name string) typeID {
	if t, ok := g.typeIDs[name]; ok {
		return t
	}
	t := typeID(len(g.types))
	g.types = append(g.types, name)
	g.typeIDs[name] = t
	return t
}

// in returns the inner of a vertex, or nil if the vertex has no children.
func (g *graph) in(u vid) *inner {
	if i := g.inside[u]; i >= 0 {
		return g.inner[i]
	}
	return nil
}

func (g *graph) basename(u vid) string {
	if b, ok := g.basenames[u]; ok {
		return b
	}
	return g.types[g.typ[u]]
}

func (g *graph) name(u vid) string {
	if n, ok := g.names[u]; ok {
		return n
	}
	return g.basename(u) + strconv.FormatInt(g.id[u], 10)
}

// vertex returns a vertex as it was read.
func (g *graph) vertex(u vid) resource.Vertex {
	v := resource.Vertex{
		UniqID: g.uniq[u], Type: g.types[g.typ[u]], Basename: g.basename(u), Name: g.name(u),
		ID: g.id[u], Rank: g.rank[u], Size: g.size[u], Unit: g.units[u],
		Exclusive: g.exclusive[u], Properties: maps.Clone(g.properties[u]), Path: g.path(u), Paths: maps.Clone(g.paths[u]),
	}
	if g.flags[u]&isDown != 0 {
		v.Status = resource.Down
	}
	return v
}

// under reports whether v is u or is below u.
func (g *graph) under(v, u vid) bool {
	for ; v != none; v = g.parent[v] {
		if v == u {
			return true
		}
	}
	return false
}

// nodeOf returns the node vertex that u is or is below, or none.
func (g *graph) nodeOf(u vid) vid {
	for ; u != none && typeID(g.typ[u]) != typeNode; u = g.parent[u] {
	}
	return u
}

// mark sets or clears a mark of a vertex, and updates the parent's touched.
func (g *graph) mark(u vid, flag uint8, on bool) {
	const touching = isDown | isBooked
	was := g.flags[u]&touching != 0
	if on {
		g.flags[u] |= flag
	} else {
		g.flags[u] &^= flag
	}
	now := g.flags[u]&touching != 0
	if was == now || g.parent[u] == none || g.inside[u] >= 0 {
		return
	}
	if in := g.in(g.parent[u]); now {
		in.touched++
	} else {
		in.touched--
	}
}
