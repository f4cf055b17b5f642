package traverser

import (
	"maps"
	"strconv"

	"github.com/flux-k8s/fluence/pkg/planner"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A vid is the index of a vertex in the graph.
type vid = int32

const none vid = -1

// A typeID is the place of a type's name among all that were seen. Sets of types
// are in the order of these numbers (Fluxion interns names alike).
type typeID = int32

// The types that are known before any graph is.
const (
	typeCluster typeID = iota
	typeCore
	typeSocket
	typeGPU
	typeNode
	typeRack
	typeSlot
)

// firstTypes lists them in their order.
var firstTypes = []string{resource.TypeCluster, "core", "socket", "gpu", resource.TypeNode, "rack", "slot"}

// The marks of a vertex.
const (
	isDown   uint8 = 1 << iota
	isBooked       // something of its plans is booked, at whatever time
	isOdd          // has a path that is not its parent's and its name, or a slash in that
	hasEdges       // has a child, or an edge back to what it stands in
)

// A graph is the containment tree, vertex by vertex in the order of arrival. What
// nearly every vertex has is in columns; what few have is kept aside.
type graph struct {
	types   []string
	typeIDs map[string]typeID
	root    vid
	count   int   // of the vertices that containment reaches
	nodes   []vid // of type node, in the order of a walk
	total   int64 // of the sizes; at most maxTotal

	typ      []uint16
	flags    []uint8
	parent   []vid
	position []int32 // among the edges of the parent
	inside   []int32 // index into inner; -1 for a vertex without children
	id       []int64
	uniq     []int64
	rank     []int64
	size     []int64
	plans    []planner.Plan // of the vertex's own amount

	inner      []*inner
	basenames  map[vid]string // where it is not the type
	names      map[vid]string // where it is not basename and id
	units      map[vid]string
	exclusive  map[vid]bool
	properties map[vid]map[string]string
	odd        map[vid]string            // paths of the odd
	byPath     map[string][]vid          // the odd by path; nil until somebody asks
	paths      map[vid]map[string]string // in other subsystems
	// labels stick to vertices once they were given out under them, as in Fluxion.
	labels map[vid]string

	// aside are the edges of other subsystems.
	aside []aside
}

// An aside is an edge of a subsystem that is not walked.
type aside struct {
	from, to  vid
	subsystem string
}

// An inner is what a vertex with children has beside.
type inner struct {
	children []vid // in the order of the edges
	// back are the types of the vertices that it has edges back to.
	back []typeID
	// leaves sums the sizes and counts of the children that are leaves, by type.
	leaves []tally
	// below lists the types of the children.
	below []typeID
	// touched counts the children that are marked down or booked, or are no leaves.
	touched int32
	// use counts the jobs that hold something here or below, over time; Fluxion's
	// x-checker.
	use planner.Plan
	// free has the amounts of the tracked types below; nil where none is tracked.
	free *aggregate
	// weight is that of the edge to this vertex.
	weight uint64
	// order has the children by weight and number, both falling; nil while that is
	// the order of the edges from the end.
	order []vid
	// ragged says that the weights fall or the numbers do not rise along the edges.
	ragged bool
	// byName has the children by name, the first of those with one name; twins are
	// the others of these. It is nil until somebody asks.
	byName map[string]vid
	twins  []vid
	// text has the paths of the children one after another, which end at ends; both
	// are nil until somebody asks.
	text string
	ends []int
}

// A tally counts the leaves of one type among the children of a vertex.
type tally struct {
	typ   typeID
	count int64
	sum   int64
	size  int64 // of each, or -1 if they differ
}

// An aggregate is the pruning filter of a vertex: what is free of some types
// below it, over time.
type aggregate struct {
	types []typeID // rising
	plan  *planner.Multi
	// booked says that something was booked here once.
	booked bool
	// sums gathers what a job holds below, while open.
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

// typeOf returns the number of a type, given out where it is new.
func (g *graph) typeOf(name string) typeID {
	if t, ok := g.typeIDs[name]; ok {
		return t
	}
	t := typeID(len(g.types))
	g.types = append(g.types, name)
	g.typeIDs[name] = t
	return t
}

// in returns what a vertex with children has, or nil.
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

// vertex describes a vertex as it was read.
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

// under says whether v is u or stands below it.
func (g *graph) under(v, u vid) bool {
	for ; v != none; v = g.parent[v] {
		if v == u {
			return true
		}
	}
	return false
}

// nodeOf returns the node vertex that a vertex is or stands below, or none.
func (g *graph) nodeOf(u vid) vid {
	for ; u != none && typeID(g.typ[u]) != typeNode; u = g.parent[u] {
	}
	return u
}

// mark sets or clears a flag of a vertex, and has its parent know whether it is
// touched.
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
