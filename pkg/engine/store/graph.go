package store

import (
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Graph is the tree of vertices. Its nodes are also in an array and in columns.
type Graph struct {
	root *vertex // nil while the graph is empty
	// nodes are in the order of their numbers. Before they are numbered, they are in the order in
	// which they were added.
	nodes   []*node
	columns columns
	// levels has the vertices above the nodes, except the root.
	levels map[levelKey]*vertex
	// walkOrder caches depthFirst. It is nil after a node was added, removed or moved.
	walkOrder []int32
	// ascending and descending cache the orders of positions. ascending may be longer than nodes.
	ascending, descending []int32
	// partitions caches Partition by type of vertex. It is empty after a node was added, removed or
	// moved.
	partitions map[string]*Partition
	// numbered reports whether the nodes have their numbers.
	numbered bool
	// nextID is the ID of the next node.
	nextID int64
	// nextUniq is the UniqID of the next vertex.
	nextUniq int64
	// hosts finds nodes by name. It is nil in a snapshot.
	hosts *hosts
}

// A levelKey identifies a vertex above the nodes.
type levelKey struct {
	parent    *vertex
	typ, name string
}

func newGraph() Graph {
	return Graph{levels: make(map[levelKey]*vertex), partitions: make(map[string]*Partition), columns: newColumns()}
}

// checkRoot fails with match.ErrInvalid for a node whose root is not the graph's root.
func (g *Graph) checkRoot(s *nodeGraph, root *resource.Vertex) error {
	if top := s.ancestors[0]; root != nil && (top.Type != root.Type || top.Name != root.Name) {
		return invalid("node %q has the root %s %q, but the root of the graph is %s %q", s.node.Name, top.Type, top.Name, root.Type, root.Name)
	}
	return nil
}

// put updates the node n, or adds a node if n is nil, and returns it. Its pools are new and have no
// charges.
func (g *Graph) put(n *node, s *nodeGraph) *node {
	parent, statusChanged := g.ensureAncestors(s.ancestors)
	if n == nil {
		n = &node{vertex: &vertex{}, position: len(g.nodes)}
		n.vertex.node = n
		n.vertex.attach(parent)
		g.invalidate()
		if g.numbered {
			s.node.ID = g.newID()
		}
		g.nodes = append(g.nodes, n)
		g.columns.addNode()
	} else {
		if old := n.vertex.parent; old != parent {
			n.vertex.detach()
			n.vertex.attach(parent)
			g.invalidate()
			g.prune(old)
		}
		s.node.ID = n.vertex.res.ID
	}
	g.setResource(n.vertex, s.node)
	g.replaceDescendants(n, s)
	n.buildPools(&g.columns)
	g.columns.setUp(n.position, n.vertex.isUp())
	if statusChanged {
		for i, other := range g.nodes {
			g.columns.setUp(i, other.vertex.isUp())
		}
	}
	return n
}

// ensureAncestors returns the vertex that contains a node. It creates vertices that are missing.
// statusChanged reports whether the status of a vertex above the node has changed.
func (g *Graph) ensureAncestors(above []*resource.Vertex) (at *vertex, statusChanged bool) {
	for i, a := range above {
		v := g.root
		if i > 0 {
			v = g.levels[levelKey{at, a.Type, a.Name}]
		}
		switch {
		case v != nil:
			statusChanged = statusChanged || v.res.Status != a.Status
		case i == 0:
			v = &vertex{}
			g.root = v
		default:
			v = &vertex{}
			v.attach(at)
			g.levels[levelKey{at, a.Type, a.Name}] = v
		}
		g.setResource(v, a)
		at = v
	}
	return at, statusChanged
}

// replaceDescendants replaces the vertices below a node. A vertex that was there before keeps its
// UniqID.
func (g *Graph) replaceDescendants(n *node, s *nodeGraph) {
	had := make(map[relKey]*resource.Vertex)
	collectDescendants(had, n.vertex)
	n.vertex.children = nil
	prefix := n.vertex.path() + "/"
	vertices := make([]vertex, len(s.descendants))
	for i, b := range s.descendants {
		v, parent := &vertices[i], n.vertex
		if b.parent >= 0 {
			parent = &vertices[b.parent]
		}
		v.attach(parent)
		v.relPath = strings.TrimPrefix(b.res.Path, prefix)
		v.res = had[relKey{b.res.Type, v.relPath}]
		g.setResource(v, b.res)
	}
}

// A relKey identifies a vertex below a node, wherever the node is.
type relKey struct{ typ, relPath string }

// collectDescendants collects the descriptions of the vertices below v.
func collectDescendants(had map[relKey]*resource.Vertex, v *vertex) {
	for _, c := range v.children {
		had[relKey{c.res.Type, c.relPath}] = c.res
		collectDescendants(had, c)
	}
}

// remove removes a node, and the vertices above it that contain nothing else.
func (g *Graph) remove(n *node) {
	g.invalidate()
	n.dropPools(&g.columns)
	g.columns.removeNode(n.position)
	g.nodes = slices.Delete(g.nodes, n.position, n.position+1)
	for i, behind := range g.nodes[n.position:] {
		behind.position = n.position + i
	}
	parent := n.vertex.parent
	n.vertex.detach()
	g.prune(parent)
}

// prune removes v if v contains nothing, and then the vertices above v likewise.
func (g *Graph) prune(v *vertex) {
	for v != nil && len(v.children) == 0 {
		parent := v.parent
		if parent == nil {
			g.root = nil
			return
		}
		delete(g.levels, levelKey{parent, v.res.Type, v.res.Name})
		v.detach()
		v = parent
	}
}

// invalidate clears what depends on the place of nodes in the tree.
func (g *Graph) invalidate() {
	g.walkOrder, g.columns.depthFirst = nil, nil
	clear(g.partitions)
}

// numberNodes numbers the nodes by name, and sorts the children of each vertex above the nodes by
// name. A node that is added later gets the next number, and is the last child of its vertex.
func (g *Graph) numberNodes() {
	slices.SortFunc(g.nodes, func(a, b *node) int { return strings.Compare(a.name(), b.name()) })
	from := make([]int, len(g.nodes))
	for i, n := range g.nodes {
		from[i], n.position = n.position, i
		about := *n.vertex.res
		about.ID = g.newID()
		n.vertex.res = &about
	}
	g.columns.permute(from)
	g.invalidate()
	if g.root != nil {
		g.root.sortByName()
	}
	g.numbered = true
}

// setResource replaces the description of a vertex, except its UniqID.
func (g *Graph) setResource(v *vertex, about *resource.Vertex) {
	if v.res != nil {
		about.UniqID = v.res.UniqID
	} else {
		about.UniqID = g.nextUniq
		g.nextUniq++
	}
	v.res = about
}

func (g *Graph) newID() int64 {
	g.nextID++
	return g.nextID - 1
}

// Empty reports whether the graph has no vertex.
func (g *Graph) Empty() bool { return g.root == nil }

// Size returns the number of nodes.
func (g *Graph) Size() int { return len(g.nodes) }

// NodeVertex returns the description of the node at a position.
func (g *Graph) NodeVertex(at int32) *resource.Vertex { return g.nodes[at].vertex.res }

// HasNames reports whether Position finds nodes: not in a snapshot.
func (g *Graph) HasNames() bool { return g.hosts != nil }

// Position returns the position of the node with this name. It returns false if there is none.
func (g *Graph) Position(name string) (at int, ok bool) {
	h := g.hosts.byName[name]
	if h == nil || h.node == nil {
		return 0, false
	}
	return h.node.position, true
}

// Up reports by position whether the node and all vertices above it are up.
func (g *Graph) Up() []bool { return g.columns.up }

// ExclusivityFor returns the exclusivities by position. It returns nil if they cannot keep the
// requester from any node.
func (g *Graph) ExclusivityFor(who solver.Requester) []solver.Exclusivity {
	return g.columns.exclusivityFor(who)
}

// Columns calls do with each column of a type of pool, and the unit of the column.
func (g *Graph) Columns(typ string, do func(c *solver.Column, unit string)) {
	for _, c := range g.columns.byType[typ] {
		do(&c.Column, c.unit)
	}
}

// RootType returns the type of the root vertex.
func (g *Graph) RootType() string {
	if g.root == nil {
		return resource.TypeCluster
	}
	return g.root.res.Type
}
