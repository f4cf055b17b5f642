package store

import "slices"

// A Snapshot is what matchers read of a graph at one moment, but for amounts. The store may change
// from then on.
type Snapshot struct {
	Graph
	// originals are the nodes that were there, and parents those that they stood below then.
	originals []*node
	parents   []*vertex
}

// Snapshot takes one, with the partitions by some types of vertices.
func (st *Store) Snapshot(kinds []string) *Snapshot {
	of := &st.graph
	s := &Snapshot{Graph: newGraph(), originals: slices.Clone(of.nodes)}
	g := &s.Graph
	g.columns.up, g.columns.exclusive = slices.Clone(of.columns.up), slices.Clone(of.columns.exclusive)
	g.columns.exclusiveNodes = of.columns.exclusiveNodes
	for _, kind := range kinds {
		g.partitions[kind] = of.Partition(kind)
	}
	vertices, nodes := make([]vertex, len(of.nodes)), make([]node, len(of.nodes))
	g.nodes = make([]*node, len(of.nodes))
	for i, n := range of.nodes {
		vertices[i].res = n.vertex.res
		nodes[i] = node{vertex: &vertices[i], position: i}
		g.nodes[i] = &nodes[i]
		s.parents = append(s.parents, n.vertex.parent)
	}
	return s
}

// Position returns where the node that was at a position stands now. It is false if the node has
// left, or stands elsewhere.
func (st *Store) Position(s *Snapshot, at int) (int, bool) {
	n := s.originals[at]
	if n.position >= len(st.graph.nodes) || st.graph.nodes[n.position] != n || n.vertex.parent != s.parents[at] {
		return 0, false
	}
	return n.position, true
}
