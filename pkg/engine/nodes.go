package engine

import (
	"context"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// PutNode implements match.Engine. A node has the status of its vertex. The leaves below a node are
// its pools. All leaves of one type are one pool.
func (e *Engine) PutNode(ctx context.Context, at match.Epoch, nodes ...*resource.Graph) error {
	e.mu.Lock()
	defer e.unlock()
	p, err := e.checkStore(ctx, at)
	if err != nil {
		return err
	}
	if err := p.store.PutNodes(nodes...); err != nil {
		return err
	}
	e.backendFixed = e.backendFixed || len(nodes) > 0
	return nil
}

// RemoveNode implements match.Engine.
func (e *Engine) RemoveNode(ctx context.Context, at match.Epoch, name string) error {
	e.mu.Lock()
	defer e.unlock()
	p, err := e.checkStore(ctx, at)
	if err != nil {
		return err
	}
	p.store.RemoveNode(name)
	return nil
}

// checkStore checks the epoch of a call that needs a store, and returns the store.
func (e *Engine) checkStore(ctx context.Context, at match.Epoch) (*storeBackend, error) {
	if err := e.checkEpoch(ctx, at); err != nil {
		return nil, err
	}
	return e.asStore()
}

// SetStatus implements match.Engine.
func (e *Engine) SetStatus(ctx context.Context, at match.Epoch, name string, status resource.Status) error {
	e.mu.Lock()
	defer e.unlock()
	if err := e.checkEpoch(ctx, at); err != nil {
		return err
	}
	if status != resource.Up && status != resource.Down {
		return invalid("set the status of node %q: unknown status %d", name, status)
	}
	return e.backend.setStatus(name, status)
}

// Nodes implements match.Engine. The lock is held while a page is copied, but not while it is
// converted. The first call in an epoch sorts all names.
func (e *Engine) Nodes(ctx context.Context, at match.Epoch, from string, limit int) ([]match.Node, error) {
	write, err := e.page(ctx, at, from, limit)
	if err != nil {
		return nil, err
	}
	return write(), nil
}

// page copies one page of nodes under the lock. The returned function converts the copy.
func (e *Engine) page(ctx context.Context, at match.Epoch, from string, limit int) (func() []match.Node, error) {
	e.mu.Lock()
	defer e.unlock()
	if err := e.checkEpoch(ctx, at); err != nil {
		return nil, err
	}
	if limit < 1 || limit > match.MaxNodesPerPage {
		return nil, invalid("list nodes: limit %d: must be from 1 to %d", limit, match.MaxNodesPerPage)
	}
	return e.backend.page(from, limit), nil
}
