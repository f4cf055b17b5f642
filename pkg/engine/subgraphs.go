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
	if err := e.mayAdd(ctx, at); err != nil {
		return err
	}
	part, err := traverser.Read(jgf) // which takes long, and nobody has to wait for it
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.unlock()
	g, err := e.admitGraphs(ctx, at)
	if err != nil {
		return err
	}
	if err := g.Add(part); err != nil {
		return err
	}
	e.backend, e.begun = g, true
	return nil
}

func (e *Engine) mayAdd(ctx context.Context, at match.Epoch) error {
	e.mu.Lock()
	defer e.unlock()
	_, err := e.admitGraphs(ctx, at)
	return err
}

// admitGraphs admits a call that goes with graphs that were added.
func (e *Engine) admitGraphs(ctx context.Context, at match.Epoch) (*graphs, error) {
	if err := e.admit(ctx, at); err != nil {
		return nil, err
	}
	return e.asGraphs()
}

// RemoveSubgraph implements match.GraphEngine.
func (e *Engine) RemoveSubgraph(ctx context.Context, at match.Epoch, path string) error {
	e.mu.Lock()
	defer e.unlock()
	g, err := e.admitGraphs(ctx, at)
	if err != nil {
		return err
	}
	return g.Remove(path)
}

// Find implements match.GraphEngine.
func (e *Engine) Find(ctx context.Context, at match.Epoch, criteria string, now time.Time) (*resource.Set, error) {
	e.mu.Lock()
	defer e.unlock()
	g, err := e.admitGraphs(ctx, at)
	if err != nil {
		return nil, err
	}
	return g.Find(criteria, traverser.Instant(now))
}
