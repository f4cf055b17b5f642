package engine

import (
	"context"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/traverser"
)

// A making is what an epoch's graph is made of.
type making int

const (
	undecided making = iota
	ofNodes          // that were put: their pools are divided
	ofGraphs         // that were added: their vertices are given out whole
)

var _ match.GraphEngine = (*Engine)(nil)

// admitNodes admits a call that goes with nodes that were put.
func (e *Engine) admitNodes(ctx context.Context, at match.Epoch) error {
	if err := e.admit(ctx, at); err != nil {
		return err
	}
	if e.making == ofGraphs {
		return invalid("the graph was begun with AddSubgraph: nodes are not put into it, nor taken out of it by name")
	}
	return nil
}

// admitGraphs admits a call that goes with graphs that were added.
func (e *Engine) admitGraphs(ctx context.Context, at match.Epoch) error {
	if err := e.admit(ctx, at); err != nil {
		return err
	}
	if e.making == ofNodes {
		return invalid("the graph was begun with PutNode or Update: no subgraphs are added to it, removed or found")
	}
	return nil
}

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
	if err := e.admitGraphs(ctx, at); err != nil {
		return err
	}
	if err := e.added.Add(part); err != nil {
		return err
	}
	e.making = ofGraphs
	return nil
}

func (e *Engine) mayAdd(ctx context.Context, at match.Epoch) error {
	e.mu.Lock()
	defer e.unlock()
	return e.admitGraphs(ctx, at)
}

// RemoveSubgraph implements match.GraphEngine.
func (e *Engine) RemoveSubgraph(ctx context.Context, at match.Epoch, path string) error {
	e.mu.Lock()
	defer e.unlock()
	if err := e.admitGraphs(ctx, at); err != nil {
		return err
	}
	return e.added.Remove(path)
}

// Find implements match.GraphEngine.
func (e *Engine) Find(ctx context.Context, at match.Epoch, criteria string, now time.Time) (*resource.Set, error) {
	e.mu.Lock()
	defer e.unlock()
	if err := e.admitGraphs(ctx, at); err != nil {
		return nil, err
	}
	return e.added.Find(criteria, traverser.Instant(now))
}

// matchAdded is Match in a graph that was added.
func (e *Engine) matchAdded(ctx context.Context, r *match.Request) (*match.Allocation, error) {
	if err := check(r, hasR); err != nil {
		return nil, err
	}
	if r.Jobspec == nil {
		return nil, invalid("no jobspec")
	}
	return e.added.Match(ctx, r, traverser.Fingerprint(fingerprintOf(r)))
}

// setAddedStatus is SetStatus in a graph that was added.
func (e *Engine) setAddedStatus(name string, status resource.Status) error {
	if name != "" && name[0] == '/' {
		return e.added.SetStatus(name, status)
	}
	return e.added.SetNodeStatus(name, status)
}
