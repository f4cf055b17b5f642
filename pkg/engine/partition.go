package engine

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// A partition says of every node below which vertex of one type it stands.
type partition struct {
	// of is by position of a node the index of its vertex; -1 for none.
	of []int32
	// vertices are as they were when the nodes were divided, in the order of their paths.
	vertices []*resource.Vertex
}

// partition divides the nodes by the vertices of a type. It is the graph's own, and
// made anew only after nodes came, went or moved.
func (g *graph) partition(kind string) *partition {
	if p := g.partitions[kind]; p != nil {
		return p
	}
	p := &partition{of: make([]int32, len(g.nodes))}
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
		p.vertices = append(p.vertices, v.about)
	}
	for at, n := range g.nodes {
		p.of[at] = -1
		if v := n.at.of(kind); v != nil {
			p.of[at] = index[v]
		}
	}
	if len(p.vertices) > 0 {
		g.partitions[kind] = p
	}
	return p
}

// kinds lists the types of the vertices that nodes stand in, outermost first, and
// their own.
func (g *graph) kinds() []string {
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
