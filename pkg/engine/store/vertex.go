package store

import (
	"cmp"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// A vertex is one resource pool of the graph.
type vertex struct {
	// res describes the vertex. Allocations share it, so it is replaced as a
	// whole and never changed in place.
	res      *resource.Vertex
	parent   *vertex // nil for the root
	children []*vertex
	depth    int // 0 for the root
	// node is what the vertex is, if it is of that type.
	node *node
	// used is what slots hold of the vertex; only leaves below a node are held.
	// Stays is the part of it that is held by slots that stay.
	used, permanent sum128
	// relPath is the path from its node to a vertex below one: it stays the same
	// when the node moves to another rack.
	relPath string
	// nearWalk is the walk that last found one of its near nodes at or below the
	// vertex.
	nearWalk uint64
}

// path returns the vertex's containment path.
func (v *vertex) path() string { return v.res.Path }

// isUp says whether the vertex and all that it stands in are up.
func (v *vertex) isUp() bool {
	for ; v != nil; v = v.parent {
		if v.res.Status != resource.Up {
			return false
		}
	}
	return true
}

// enclosing returns the nearest vertex of a type, from v itself upwards; nil for none.
func (v *vertex) enclosing(typ string) *vertex {
	for v != nil && v.res.Type != typ {
		v = v.parent
	}
	return v
}

// free returns what of the vertex may be given out.
func (v *vertex) free() int64 {
	if v.res.Status != resource.Up {
		return 0
	}
	return v.used.remaining(v.res.Size)
}

// attach puts v below parent.
func (v *vertex) attach(parent *vertex) {
	v.parent, v.depth = parent, parent.depth+1
	parent.children = append(parent.children, v)
}

// detach takes v from below its parent.
func (v *vertex) detach() {
	p := v.parent
	at := slices.Index(p.children, v)
	p.children = slices.Delete(p.children, at, at+1)
	v.parent = nil
}

// sortByName sorts by name what stands in v, as far as down to the nodes.
func (v *vertex) sortByName() {
	if v.node != nil {
		return
	}
	slices.SortStableFunc(v.children, func(a, b *vertex) int {
		return cmp.Or(strings.Compare(a.res.Name, b.res.Name), strings.Compare(a.res.Type, b.res.Type))
	})
	for _, c := range v.children {
		c.sortByName()
	}
}
