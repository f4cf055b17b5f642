package traverser

import (
	"github.com/flux-k8s/fluence/pkg/resource"
)

// SetStatus marks the vertex with this containment path as up or down. It
// changes no other vertex, but the vertices below a vertex that is down cannot
// be reached. It fails with match.ErrInvalid if there is no such vertex.
func (t *Traverser) SetStatus(path string, s resource.Status) error {
	u := t.g.find(path, anyRank)
	if u == none {
		return invalid("path: %q: no such vertex", path)
	}
	t.g.mark(u, isDown, s == resource.Down)
	return nil
}

// SetNodeStatus is SetStatus for the node with this name.
func (t *Traverser) SetNodeStatus(name string, s resource.Status) error {
	for _, n := range t.g.nodes {
		if t.g.name(n) == name {
			t.g.mark(n, isDown, s == resource.Down)
			return nil
		}
	}
	return invalid("node %q: is not in the graph", name)
}
