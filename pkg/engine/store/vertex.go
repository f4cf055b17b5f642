package store

import (
	"cmp"
	"slices"
	"strings"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// A vertex is a vertex of the resource graph: a cluster, a rack, a node or a resource of a node.
type vertex struct {
	// res is the description of the vertex. Invariant: it is replaced, never changed in place, because
	// allocations share it.
	res *resource.Vertex
	// parent is nil for the root.
	parent   *vertex
	children []*vertex
	// depth is 0 for the root.
	depth int
	// node is set if the type of the vertex is node.
	node *node
	// used is what slots hold of the vertex. Only leaves below a node are held.
	// permanent is the part of used that permanent slots hold.
	// later is the part of used that is held beyond the start of the view's window. It counts only
	// while a window's view covers the node and nothing is reserved there.
	used, permanent, later sum128
	// relPath is the path of a vertex from its node down. It stays the same when the node moves to
	// another rack.
	relPath string
	// nearMark is the number of the last call of Order with a near node at or below the vertex.
	nearMark uint64
}

// path returns the vertex's containment path.
func (v *vertex) path() string { return v.res.Path }

// isUp reports whether the vertex and all vertices above it are up.
func (v *vertex) isUp() bool {
	for ; v != nil; v = v.parent {
		if v.res.Status != resource.Up {
			return false
		}
	}
	return true
}

// enclosing returns the nearest vertex of a type from v upwards, or nil if there is none. That may
// be v itself.
func (v *vertex) enclosing(typ string) *vertex {
	for v != nil && v.res.Type != typ {
		v = v.parent
	}
	return v
}

// free returns how much of the vertex may be given out.
func (v *vertex) free() int64 { return v.freeBeside(&v.used) }

// freeBeside returns how much of the vertex may be given out beside this amount.
func (v *vertex) freeBeside(used *sum128) int64 {
	if v.res.Status != resource.Up {
		return 0
	}
	return used.remaining(v.res.Size)
}

// attach makes v a child of parent.
func (v *vertex) attach(parent *vertex) {
	v.parent, v.depth = parent, parent.depth+1
	parent.children = append(parent.children, v)
}

// detach removes v from its parent.
func (v *vertex) detach() {
	p := v.parent
	at := slices.Index(p.children, v)
	p.children = slices.Delete(p.children, at, at+1)
	v.parent = nil
}

// sortByName sorts by name the children of v, and of the vertices between v and the nodes.
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
