package store

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Partition says of every node below which vertex of one type it stands.
type Partition struct {
	// Of is by position of a node the index of its vertex; -1 for none.
	Of []int32
	// Names are those of the vertices, in the order of their paths.
	Names []string
}

// Partition divides the nodes by the vertices of a type. It is the graph's own, and
// made anew only after nodes came, went or moved.
func (g *Graph) Partition(kind string) *Partition {
	if p := g.partitions[kind]; p != nil {
		return p
	}
	p := &Partition{Of: make([]int32, len(g.nodes))}
	index := make(map[*vertex]int32)
	var found []*vertex
	for _, n := range g.nodes {
		if v := n.at.of(kind); v != nil {
			if _, ok := index[v]; !ok {
				index[v] = 0
				found = append(found, v)
			}
		}
	}
	slices.SortFunc(found, func(a, b *vertex) int { return strings.Compare(a.path(), b.path()) })
	for i, v := range found {
		index[v] = int32(i)
		p.Names = append(p.Names, v.about.Name)
	}
	for at, n := range g.nodes {
		p.Of[at] = -1
		if v := n.at.of(kind); v != nil {
			p.Of[at] = index[v]
		}
	}
	if len(p.Names) > 0 {
		g.partitions[kind] = p
	}
	return p
}

// Kinds lists the types of the vertices that nodes stand in, outermost first, and
// their own.
func (g *Graph) Kinds() []string {
	depths := map[string]int{}
	for l, v := range g.levels {
		depths[l.kind] = max(depths[l.kind], v.depth)
	}
	if g.root != nil {
		depths[g.root.about.Type] = 0
	}
	kinds := slices.SortedFunc(maps.Keys(depths), func(a, b string) int {
		return cmp.Or(cmp.Compare(depths[a], depths[b]), strings.Compare(a, b))
	})
	return append(kinds, resource.TypeNode)
}
