package store

import (
	"slices"

	"github.com/flux-k8s/fluence/pkg/engine/solver"
)

// A Snapshot is a copy of what a solver reads of a graph, except the amounts. The store may change
// afterwards.
type Snapshot struct {
	Graph
	// originals are the store's nodes at the time of the snapshot.
	originals []*node
	// parents are the vertices that contained these nodes.
	parents []*vertex
}

// Snapshot returns a snapshot with the partitions by these types of vertices.
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

// Position returns the current position of the node at a position of the snapshot. It returns false
// if the node was removed or moved.
func (st *Store) Position(s *Snapshot, at int) (int, bool) {
	n := s.originals[at]
	if n.position >= len(st.graph.nodes) || st.graph.nodes[n.position] != n || n.vertex.parent != s.parents[at] {
		return 0, false
	}
	return n.position, true
}

// SetExclusivity sets the exclusivity of the node at a position of the snapshot.
func (s *Snapshot) SetExclusivity(at int32, to solver.Exclusivity) { s.columns.exclusive[at] = to }
