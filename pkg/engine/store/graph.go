package store

import (
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Graph is the tree of all that there is, with its nodes at hand.
type Graph struct {
	root *vertex // nil while the graph is empty
	// nodes are in the order of their numbers; before numbering in that of their
	// arrival.
	nodes   []*node
	columns columns
	levels  map[levelKey]*vertex
	// walkOrder is what depthFirst found; nil after nodes came, went or moved.
	walkOrder []int32
	// partitions are those that were asked for, by type of vertex; none after nodes
	// came, went or moved.
	partitions map[string]*Partition
	numbered   bool
	nextID     int64 // of a node
	nextUniq   int64 // of a vertex
}

// A level names a vertex above the nodes.
type levelKey struct {
	parent    *vertex
	typ, name string
}

func newGraph() Graph {
	return Graph{levels: make(map[levelKey]*vertex), partitions: make(map[string]*Partition), columns: columns{byType: make(map[string][]*column)}}
}

// checkRoot fails with match.ErrInvalid for a site that hangs below another root.
func (g *Graph) checkRoot(s *nodeGraph, root *resource.Vertex) error {
	if top := s.ancestors[0]; root != nil && (top.Type != root.Type || top.Name != root.Name) {
		return invalid("node %q stands in %s %q, the graph is %s %q", s.node.Name, top.Type, top.Name, root.Type, root.Name)
	}
	return nil
}

// put brings a node up to date, or adds one where n is nil, and returns it. Its
// pools are new and free.
func (g *Graph) put(n *node, s *nodeGraph) *node {
	parent, turned := g.ensureAncestors(s.ancestors)
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
	g.columns.up[n.position] = n.vertex.isUp()
	if turned {
		for i, other := range g.nodes {
			g.columns.up[i] = other.vertex.isUp()
		}
	}
	return n
}

// ensureAncestors returns the vertex that a node stands in, making what lacks on the way
// down to it. It says whether the status of a vertex on the way has turned.
func (g *Graph) ensureAncestors(above []*resource.Vertex) (at *vertex, turned bool) {
	for i, a := range above {
		v := g.root
		if i > 0 {
			v = g.levels[levelKey{at, a.Type, a.Name}]
		}
		switch {
		case v != nil:
			turned = turned || v.res.Status != a.Status
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
	return at, turned
}

// replaceDescendants replaces what stands below a node. Vertices that were there keep their
// numbers.
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

// A relKey names a vertex below a node, wherever the node stands.
type relKey struct{ typ, relPath string }

// collectDescendants notes what describes the vertices below v.
func collectDescendants(had map[relKey]*resource.Vertex, v *vertex) {
	for _, c := range v.children {
		had[relKey{c.res.Type, c.relPath}] = c.res
		collectDescendants(had, c)
	}
}

// remove takes a node out, and the levels that held nothing else.
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

// prune takes v out if nothing stands in it any more, and so on upwards.
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

// invalidate forgets what says where nodes stand.
func (g *Graph) invalidate() {
	g.walkOrder = nil
	clear(g.partitions)
}

// numberNodes gives the nodes their numbers, by name, and has a walk meet what stands
// in one vertex by name. Nodes that come later are numbered, and met, as they
// come.
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

// setResource replaces what describes a vertex, but not its number in the graph.
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

// Empty says whether there is no vertex.
func (g *Graph) Empty() bool { return g.root == nil }

// Size returns how many nodes there are.
func (g *Graph) Size() int { return len(g.nodes) }

// NodeVertex returns what describes the node at a position.
func (g *Graph) NodeVertex(at int32) *resource.Vertex { return g.nodes[at].vertex.res }

// Up says by position whether the node and all that it stands in are up.
func (g *Graph) Up() []bool { return g.columns.up }

// ExclusivityFor says by position whose the node is where that may keep a requester from any; nil where
// it does not.
func (g *Graph) ExclusivityFor(who solver.Requester) []solver.Exclusivity {
	return g.columns.exclusivityFor(who)
}

// Columns calls do with each column that pools of a type are counted in, and its unit.
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
