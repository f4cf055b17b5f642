package matchtest

import (
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Pool is an amount of one resource type: what a node has, what a slot needs, or what a slot
// holds.
type Pool struct {
	// Type is the type of the pool's vertex, for instance "core".
	Type string
	// Amount is the amount in Unit.
	Amount int64
	// Unit is empty if the resource is counted in pieces.
	Unit string
}

// GiB is 2^30 bytes.
const GiB = int64(1) << 30

// Cores returns n whole cores, counted in thousandths ("m").
func Cores(n int64) Pool { return MilliCores(1000 * n) }

// MilliCores returns n thousandths of a core.
func MilliCores(n int64) Pool { return Pool{Type: "core", Amount: n, Unit: "m"} }

// Memory returns n GiB of memory, in bytes.
func Memory(n int64) Pool { return Bytes(n * GiB) }

// Bytes returns n bytes of memory.
func Bytes(n int64) Pool { return Pool{Type: "memory", Amount: n, Unit: "B"} }

// Pods returns room for n pods.
func Pods(n int64) Pool { return Pool{Type: "pods", Amount: n} }

// GPUs returns n GPUs, under the name that Kubernetes uses.
func GPUs(n int64) Pool { return Pool{Type: "nvidia.com/gpu", Amount: n} }

// Cluster is the name of the root vertex of every graph that Node builds.
const Cluster = "cluster0"

// Node builds the graph that PutNode takes: a cluster, the levels below it, a node with this name
// below the last level, and its pools. Each level is a type and a name, the outermost first. The
// numbers (UniqID, ID) are unique only in this graph, as in every graph of one node.
func Node(name string, levels [][2]string, pools ...Pool) *resource.Graph {
	g := &resource.Graph{}
	at := g.Hang(-1, resource.Vertex{Type: resource.TypeCluster, Name: Cluster, Size: 1})
	for _, l := range levels {
		at = g.Hang(at, resource.Vertex{Type: l[0], Name: l[1], Size: 1})
	}
	at = g.Hang(at, resource.Vertex{Type: resource.TypeNode, Name: name, Size: 1})
	for _, p := range pools {
		g.Hang(at, resource.Vertex{Type: p.Type, Name: p.Type + "0", Size: p.Amount, Unit: p.Unit})
	}
	return g
}

// WithProperties sets the properties of g's node vertex, and returns g. The pairs are key, value,
// key, value.
func WithProperties(g *resource.Graph, pairs ...string) *resource.Graph {
	v := nodeOf(g)
	v.Properties = make(map[string]string, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Properties[pairs[i]] = pairs[i+1]
	}
	return g
}

// WithStatus sets the status of g's node vertex, and returns g.
func WithStatus(g *resource.Graph, s resource.Status) *resource.Graph {
	nodeOf(g).Status = s
	return g
}

// nodeOf returns the vertex of type node in g.
func nodeOf(g *resource.Graph) *resource.Vertex {
	for i := range g.Vertices {
		if g.Vertices[i].Type == resource.TypeNode {
			return &g.Vertices[i]
		}
	}
	panic("matchtest: a graph without a node")
}
