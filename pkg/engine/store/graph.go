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
	levels  map[level]*vertex
	// walk is what depthFirst found; nil after nodes came, went or moved.
	walk []int32
	// partitions are those that were asked for, by type of vertex; none after nodes
	// came, went or moved.
	partitions map[string]*Partition
	numbered   bool
	nextID     int64 // of a node
	nextUniq   int64 // of a vertex
}

// A level names a vertex above the nodes.
type level struct {
	parent     *vertex
	kind, name string
}

func newGraph() Graph {
	return Graph{levels: make(map[level]*vertex), partitions: make(map[string]*Partition), columns: columns{byKind: make(map[string][]*column)}}
}

// accepts fails with match.ErrInvalid for a site that hangs below another root.
func (g *Graph) accepts(s *site, root *resource.Vertex) error {
	if top := s.above[0]; root != nil && (top.Type != root.Type || top.Name != root.Name) {
		return invalid("node %q stands in %s %q, the graph is %s %q", s.node.Name, top.Type, top.Name, root.Type, root.Name)
	}
	return nil
}

// put brings a node up to date, or adds one where n is nil, and returns it. Its
// pools are new and free.
func (g *Graph) put(n *node, s *site) *node {
	parent, turned := g.raise(s.above)
	if n == nil {
		n = &node{at: &vertex{}, position: len(g.nodes)}
		n.at.node = n
		n.at.hang(parent)
		g.changed()
		if g.numbered {
			s.node.ID = g.newID()
		}
		g.nodes = append(g.nodes, n)
		g.columns.addNode()
	} else {
		if old := n.at.parent; old != parent {
			n.at.unhang()
			n.at.hang(parent)
			g.changed()
			g.prune(old)
		}
		s.node.ID = n.at.about.ID
	}
	g.describe(n.at, s.node)
	g.grow(n, s)
	n.gather(&g.columns)
	g.columns.up[n.position] = n.at.up()
	if turned {
		for i, other := range g.nodes {
			g.columns.up[i] = other.at.up()
		}
	}
	return n
}

// raise returns the vertex that a node stands in, making what lacks on the way
// down to it. It says whether the status of a vertex on the way has turned.
func (g *Graph) raise(above []*resource.Vertex) (at *vertex, turned bool) {
	for i, a := range above {
		v := g.root
		if i > 0 {
			v = g.levels[level{at, a.Type, a.Name}]
		}
		switch {
		case v != nil:
			turned = turned || v.about.Status != a.Status
		case i == 0:
			v = &vertex{}
			g.root = v
		default:
			v = &vertex{}
			v.hang(at)
			g.levels[level{at, a.Type, a.Name}] = v
		}
		g.describe(v, a)
		at = v
	}
	return at, turned
}

// grow replaces what stands below a node. Vertices that were there keep their
// numbers.
func (g *Graph) grow(n *node, s *site) {
	had := make(map[belowKey]*resource.Vertex)
	remember(had, n.at)
	n.at.children = nil
	prefix := n.at.path() + "/"
	vertices := make([]vertex, len(s.below))
	for i, b := range s.below {
		v, parent := &vertices[i], n.at
		if b.parent >= 0 {
			parent = &vertices[b.parent]
		}
		v.hang(parent)
		v.below = strings.TrimPrefix(b.about.Path, prefix)
		v.about = had[belowKey{b.about.Type, v.below}]
		g.describe(v, b.about)
	}
}

// A belowKey names a vertex below a node, wherever the node stands.
type belowKey struct{ kind, below string }

// remember notes what describes the vertices below v.
func remember(had map[belowKey]*resource.Vertex, v *vertex) {
	for _, c := range v.children {
		had[belowKey{c.about.Type, c.below}] = c.about
		remember(had, c)
	}
}

// remove takes a node out, and the levels that held nothing else.
func (g *Graph) remove(n *node) {
	g.changed()
	n.disband(&g.columns)
	g.columns.removeNode(n.position)
	g.nodes = slices.Delete(g.nodes, n.position, n.position+1)
	for i, behind := range g.nodes[n.position:] {
		behind.position = n.position + i
	}
	parent := n.at.parent
	n.at.unhang()
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
		delete(g.levels, level{parent, v.about.Type, v.about.Name})
		v.unhang()
		v = parent
	}
}

// changed forgets what says where nodes stand.
func (g *Graph) changed() {
	g.walk = nil
	clear(g.partitions)
}

// number gives the nodes their numbers, by name, and has a walk meet what stands
// in one vertex by name. Nodes that come later are numbered, and met, as they
// come.
func (g *Graph) number() {
	slices.SortFunc(g.nodes, func(a, b *node) int { return strings.Compare(a.name(), b.name()) })
	from := make([]int, len(g.nodes))
	for i, n := range g.nodes {
		from[i], n.position = n.position, i
		about := *n.at.about
		about.ID = g.newID()
		n.at.about = &about
	}
	g.columns.permute(from)
	g.changed()
	if g.root != nil {
		g.root.sortAbove()
	}
	g.numbered = true
}

// describe replaces what describes a vertex, but not its number in the graph.
func (g *Graph) describe(v *vertex, about *resource.Vertex) {
	if v.about != nil {
		about.UniqID = v.about.UniqID
	} else {
		about.UniqID = g.nextUniq
		g.nextUniq++
	}
	v.about = about
}

func (g *Graph) newID() int64 {
	g.nextID++
	return g.nextID - 1
}

// Empty says whether there is no vertex.
func (g *Graph) Empty() bool { return g.root == nil }

// Size returns how many nodes there are.
func (g *Graph) Size() int { return len(g.nodes) }

// About returns what describes the node at a position.
func (g *Graph) About(at int32) *resource.Vertex { return g.nodes[at].at.about }

// Up says by position whether the node and all that it stands in are up.
func (g *Graph) Up() []bool { return g.columns.up }

// Exclusive says by position whose the node is where that may keep a requester from any; nil where
// it does not.
func (g *Graph) Exclusive(who solver.Requester) []solver.Exclusivity { return g.columns.hindering(who) }

// Columns calls do with each column that pools of a type are counted in, and its unit.
func (g *Graph) Columns(kind string, do func(c *solver.Column, unit string)) {
	for _, c := range g.columns.byKind[kind] {
		do(&c.Column, c.unit)
	}
}

// RootType returns the type of the root vertex.
func (g *Graph) RootType() string {
	if g.root == nil {
		return resource.TypeCluster
	}
	return g.root.about.Type
}
