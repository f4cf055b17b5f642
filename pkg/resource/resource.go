// Package resource holds the two data structures of a matcher: the resource graph (Flux
// RFC 4, in the format JGF), and R, a set of resources taken from a graph (RFC 20).
//
// The types are plain data. Only an engine knows which job holds what.
package resource

import "time"

// Containment is the subsystem to which every vertex here belongs: the
// tree in which each vertex contains its children (RFC 4, "Subsystems").
const Containment = "containment"

// TypeCluster and TypeNode are the vertex types that have a meaning throughout the project.
const (
	TypeCluster = "cluster"
	TypeNode    = "node"
)

// NoRank is the rank of a vertex that no broker serves.
const NoRank = -1

// A Status is whether a vertex may be given out.
type Status int

// The states of a vertex have the numbers of JGF. A verdict of "never fits"
// counts a vertex that is down as if it were up, because it may become up again.
const (
	Up Status = iota
	Down
)

// A Vertex is a resource pool of the graph (RFC 4, "Resource pool").
type Vertex struct {
	// UniqID is the number of the vertex in its graph.
	UniqID int64
	Type   string
	// Basename is by default the type.
	Basename string
	// Name is by default Basename followed by ID.
	Name string
	// ID is the number of the vertex among the vertices of its type below its parent.
	ID int64
	// Rank is the rank of the broker that serves the vertex, or NoRank.
	Rank int64
	// Size is the amount in the pool, in Unit.
	Size       int64
	Unit       string
	Exclusive  bool
	Status     Status
	Properties map[string]string
	// Path is the path in the containment subsystem, such as
	// "/cluster0/node1". It is empty if the vertex has none.
	Path string
	// Paths has the paths in other subsystems, by subsystem.
	Paths map[string]string
}

// An Edge leads from a vertex to its child, or to a related vertex in
// another subsystem. Source and Target are indexes into Graph.Vertices.
type Edge struct {
	Source    int
	Target    int
	Subsystem string
}

// A Graph is a resource graph or a part of one. A part has the path
// from the root down to it, so that it can be added to a whole graph.
type Graph struct {
	Vertices []Vertex
	Edges    []Edge
}

// A Set is R (RFC 20): resources taken from a graph for a time.
type Set struct {
	// Start is when the time begins. RFC 20 has times in seconds since the epoch.
	Start time.Time
	// Expiration is when the time ends. Zero means no known end.
	Expiration time.Time
	// Vertices are in emission order: each vertex comes after the vertices that it contains.
	Vertices []Share
	// Queue is the queue of the job; empty for none.
	Queue string
}

// A Share is the part of one vertex that a Set holds.
type Share struct {
	Vertex
	// Amount is how much of the vertex's Size is held. It
	// is 1 for a vertex that is only on the path to others.
	Amount int64
	// Exclusively is set if no other job may hold the vertex meanwhile.
	// A divisible pool is held by amount, so it is not exclusive.
	Exclusively bool
	// Label is the label of the part of the request that
	// the vertex was taken for, unless that part is a slot.
	Label string
}
