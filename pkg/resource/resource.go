// Package resource holds the two data structures that a matcher speaks of:
// the resource graph (Flux RFC 4, written as JGF) and R, a set taken from it
// (RFC 20).
//
// The types are plain data; who holds what is an engine's to know.
package resource

import "time"

// Containment is the subsystem that every vertex here belongs to: the tree of
// what stands inside what (RFC 4, "Subsystems").
const Containment = "containment"

// The vertex types that carry meaning of their own. All others are names.
const (
	TypeCluster = "cluster"
	TypeNode    = "node"
)

// NoRank is the rank of a vertex that no broker serves.
const NoRank = -1

// A Status says whether a vertex may be given out.
type Status int

// The states of a vertex, numbered as in JGF. A down vertex counts in a verdict
// of "never fits" as if it were up: it may come back.
const (
	Up Status = iota
	Down
)

// A Vertex is a resource pool of the graph (RFC 4, "Resource pool").
type Vertex struct {
	// UniqID is the vertex's number in its graph.
	UniqID int64
	Type   string
	// Basename and Name default to the type, and to the basename followed by ID.
	Basename string
	Name     string
	// ID numbers the vertices of one type below one parent.
	ID int64
	// Rank is the broker that serves the vertex; NoRank for none.
	Rank int64
	// Size is the amount in the pool, in Unit.
	Size       int64
	Unit       string
	Exclusive  bool
	Status     Status
	Properties map[string]string
	// Path is the vertex's path of containment, as "/cluster0/node1"; empty for one
	// that has none.
	Path string
	// Paths gives its paths in other subsystems.
	Paths map[string]string
}

// An Edge says that one vertex contains another, or relates to it in another
// subsystem. Source and Target are indexes into the graph's Vertices.
type Edge struct {
	Source    int
	Target    int
	Subsystem string
}

// A Graph is a resource graph or a part of one. A part starts with the path
// from the root down to it, so that it can be hung into a whole.
type Graph struct {
	Vertices []Vertex
	Edges    []Edge
}

// A Set is R (RFC 20): resources taken from a graph, for a time.
type Set struct {
	// Start and Expiration bound the time; a zero Expiration is no known end.
	// RFC 20 writes them in seconds since the epoch.
	Start      time.Time
	Expiration time.Time
	// Vertices stand in emission order: each after what it contains.
	Vertices []Share
	// Queue is the queue that the job was in; empty for none.
	Queue string
}

// A Share is what a Set holds of one vertex.
type Share struct {
	Vertex
	// Amount is how much of the vertex's Size is held; 1 for a vertex that is
	// only on the way to others.
	Amount int64
	// Exclusively says that nobody else may hold the vertex meanwhile. A
	// divisible pool is held by amount, and so is not exclusive.
	Exclusively bool
	// Label is that of the request, other than for a slot, which the vertex was
	// taken for.
	Label string
}
