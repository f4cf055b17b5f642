package store

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// A Partition divides the nodes by the vertices of one type above them.
type Partition struct {
	// DomainOf has by position the index of the vertex above the node. It is -1 if there is none.
	DomainOf []int32
	// Names are the names of the vertices, in the order of their paths.
	Names []string
}

// Partition divides the nodes by the vertices of a type. Callers must not change the result, which
// is cached.
func (g *Graph) Partition(typ string) *Partition {
	if p := g.partitions[typ]; p != nil {
		return p
	}
	p := &Partition{DomainOf: make([]int32, len(g.nodes))}
	index := make(map[*vertex]int32)
	var found []*vertex
	for _, n := range g.nodes {
		if v := n.vertex.enclosing(typ); v != nil {
			if _, ok := index[v]; !ok {
				index[v] = 0
				found = append(found, v)
			}
		}
	}
	slices.SortFunc(found, func(a, b *vertex) int { return strings.Compare(a.path(), b.path()) })
	for i, v := range found {
		index[v] = int32(i)
		p.Names = append(p.Names, v.res.Name)
	}
	for at, n := range g.nodes {
		p.DomainOf[at] = -1
		if v := n.vertex.enclosing(typ); v != nil {
			p.DomainOf[at] = index[v]
		}
	}
	if len(p.Names) > 0 {
		g.partitions[typ] = p
	}
	return p
}

// LevelTypes lists the types of the vertices above nodes, the outermost first, and then the type of
// nodes.
func (g *Graph) LevelTypes() []string {
	depths := map[string]int{}
	for l, v := range g.levels {
		depths[l.typ] = max(depths[l.typ], v.depth)
	}
	if g.root != nil {
		depths[g.root.res.Type] = 0
	}
	kinds := slices.SortedFunc(maps.Keys(depths), func(a, b string) int {
		return cmp.Or(cmp.Compare(depths[a], depths[b]), strings.Compare(a, b))
	})
	return append(kinds, resource.TypeNode)
}
