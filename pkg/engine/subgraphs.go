package engine

import (
	"context"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/traverser"
)

var _ match.GraphEngine = (*Engine)(nil)

// AddSubgraph implements match.GraphEngine.
func (e *Engine) AddSubgraph(ctx context.Context, at match.Epoch, jgf []byte) error {
	if err := e.checkAdd(ctx, at); err != nil {
		return err
	}
	// Reading takes long, so it needs no lock.
	part, err := traverser.Read(jgf)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.unlock()
	g, err := e.checkTraverser(ctx, at)
	if err != nil {
		return err
	}
	if err := g.Add(part); err != nil {
		return err
	}
	e.backend, e.backendFixed = g, true
	return nil
}

// checkAdd fails early if AddSubgraph has to fail, before the text is read.
func (e *Engine) checkAdd(ctx context.Context, at match.Epoch) error {
	e.mu.Lock()
	defer e.unlock()
	_, err := e.checkTraverser(ctx, at)
	return err
}

// checkTraverser checks the epoch of a call that needs a traverser, and returns the traverser.
func (e *Engine) checkTraverser(ctx context.Context, at match.Epoch) (*traverserBackend, error) {
	if err := e.checkEpoch(ctx, at); err != nil {
		return nil, err
	}
	return e.asTraverser()
}

// RemoveSubgraph implements match.GraphEngine.
func (e *Engine) RemoveSubgraph(ctx context.Context, at match.Epoch, path string) error {
	e.mu.Lock()
	defer e.unlock()
	g, err := e.checkTraverser(ctx, at)
	if err != nil {
		return err
	}
	return g.Remove(path)
}

// Find implements match.GraphEngine.
func (e *Engine) Find(ctx context.Context, at match.Epoch, criteria string, now time.Time) (*resource.Set, error) {
	e.mu.Lock()
	defer e.unlock()
	g, err := e.checkTraverser(ctx, at)
	if err != nil {
		return nil, err
	}
	return g.Find(criteria, traverser.Instant(now))
}
