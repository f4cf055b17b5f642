package matchtest

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// graphs returns the inner engine, or nil if there is none. It fails if the inner engine accepts no
// graphs.
func (f *Fake) graphs() (match.GraphEngine, error) {
	if f.inner == nil {
		return nil, nil
	}
	g, ok := f.inner.(match.GraphEngine)
	if !ok {
		return nil, fmt.Errorf("%w: this engine does not support AddSubgraph, RemoveSubgraph and Find", match.ErrInvalid)
	}
	return g, nil
}

// AddSubgraph calls the inner engine, if there is one.
func (f *Fake) AddSubgraph(ctx context.Context, e match.Epoch, jgf []byte) error {
	if err := f.enter(ctx, Call{Method: AddSubgraph, Epoch: e, JGF: bytes.Clone(jgf)}); err != nil {
		return err
	}
	inner, err := f.graphs()
	if inner == nil {
		return err
	}
	return inner.AddSubgraph(ctx, e, jgf)
}

// RemoveSubgraph calls the inner engine, if there is one.
func (f *Fake) RemoveSubgraph(ctx context.Context, e match.Epoch, path string) error {
	if err := f.enter(ctx, Call{Method: RemoveSubgraph, Epoch: e, Name: path}); err != nil {
		return err
	}
	inner, err := f.graphs()
	if inner == nil {
		return err
	}
	return inner.RemoveSubgraph(ctx, e, path)
}

// Find calls the inner engine, or returns the set of the last SetFound.
func (f *Fake) Find(ctx context.Context, e match.Epoch, criteria string, now time.Time) (*resource.Set, error) {
	if err := f.enter(ctx, Call{Method: Find, Epoch: e, Criteria: criteria, Now: now}); err != nil {
		return nil, err
	}
	inner, err := f.graphs()
	if err != nil {
		return nil, err
	}
	if inner != nil {
		return inner.Find(ctx, e, criteria, now)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found == nil {
		return nil, fmt.Errorf("matchtest: no answer is scripted for what %q finds", criteria)
	}
	return f.found, nil
}
