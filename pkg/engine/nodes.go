package engine

import (
	"context"
	"fmt"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// PutNode implements match.Engine. The status of a node is that of its vertex.
// Leaves below a node are its pools; leaves of one type make up one pool.
func (e *Engine) PutNode(ctx context.Context, at match.Epoch, nodes ...*resource.Graph) (err error) {
	e.mu.Lock()
	defer e.unlock()
	if err := e.admitNodes(ctx, at); err != nil {
		return err
	}
	if len(nodes) > 0 {
		defer func() {
			if err == nil {
				e.making = ofNodes
			}
		}()
	}
	var root *resource.Vertex
	if e.graph.root != nil {
		root = e.graph.root.about
	}
	sites := make([]*site, len(nodes))
	for i, g := range nodes {
		s, err := readSite(g)
		if err == nil {
			err = e.graph.accepts(s, root)
		}
		if err != nil {
			return fmt.Errorf("put node %d of %d: %w", i+1, len(nodes), err)
		}
		sites[i], root = s, s.above[0]
	}
	for _, s := range sites {
		h := e.host(s.node.Name)
		h.node = e.graph.put(h.node, s)
		h.settleTenancy(&e.graph.columns)
		h.rebuild()
	}
	return nil
}

// RemoveNode implements match.Engine.
func (e *Engine) RemoveNode(ctx context.Context, at match.Epoch, name string) error {
	e.mu.Lock()
	defer e.unlock()
	if err := e.admitNodes(ctx, at); err != nil {
		return err
	}
	h := e.hosts[name]
	if h == nil || h.node == nil {
		return nil
	}
	e.graph.remove(h.node)
	h.node = nil
	e.leave(name)
	return nil
}

// SetStatus implements match.Engine.
func (e *Engine) SetStatus(ctx context.Context, at match.Epoch, name string, status resource.Status) error {
	e.mu.Lock()
	defer e.unlock()
	if err := e.admit(ctx, at); err != nil {
		return err
	}
	if status != resource.Up && status != resource.Down {
		return invalid("set the status of node %q: %d is neither up nor down", name, status)
	}
	if e.making == ofGraphs {
		return e.setAddedStatus(name, status)
	}
	h := e.hosts[name]
	if h == nil || h.node == nil {
		return invalid("set the status of node %q: the graph has no such node", name)
	}
	about := *h.node.at.about
	about.Status = status
	h.node.at.about = &about
	e.graph.columns.up[h.node.position] = h.node.at.up()
	return nil
}
