// Package engine is the embedded match.Engine. It guards one backend with a lock and an epoch. The
// backend is either a store or a traverser: a store has nodes whose pools are divided by amount,
// and a traverser has graphs whose vertices are given out whole.
//
// If a call panics while it holds the lock, the epoch ends: all later calls are match.ErrStale
// until a Reset.
//
// With a store, a jobspec has only slots at its top level. Each slot has a list of pools of one
// node and their amounts. Any other jobspec is match.ErrInvalid. The package starts no goroutine
// and does no I/O. It reads the clock only to measure how long a match waited for other calls.
//
// The work of a match in a store is bounded. In a graph that was added it is not bounded: there a
// match holds the lock for as long as its walk takes.
//
// An allocation past its end counts as held now, until it is released. For later times it counts as
// released, so a reservation may use its resources from one second after the present. A reservation
// that its job has not claimed is dropped once its end has passed, by the next request that books.
//
// A request for whole nodes gets only nodes where all allocations and reservations, between the
// request's start and end, have the request's holder. Shared slots do not count. No request gets a
// node that another holder has, or has reserved, as a whole during the request's own time.
//
// Its files, listed so that a file mostly uses those above it:
//
//	work.go               how much work may one match do, and what may go on without the lock?
//	request.go            which requests are wrong, whatever the graph?
//	fingerprint.go        are two requests of a job the same?
//	backend.go            what must a graph offer to an engine?
//	host_rules.go         on which nodes may a shape be, by their names?
//	problem.go            which columns, levels and nodes of a graph does a demand mean?
//	explain.go            how is a refusal explained?
//	harm.go               which of two sets of units does less harm?
//	overlay.go            what is free when units have gone?
//	displacer.go          which units make room on some nodes, and do little harm?
//	displacer_all.go      which units do the least harm, if all sets of them are tried?
//	unlocked_search.go    what if a match takes more work than it may do under the lock?
//	displace.go           which units have to go for a request?
//	store_backend.go      what are the steps of a match on nodes that were put?
//	earliest.go           when is there room, if not now?
//	blocker.go            which job's end would help most?
//	promised.go           what do reservations keep from a request?
//	traverser_backend.go  how does a match work on a graph that was added?
//	sizes.go              how much does the engine hold?
//	engine.go             which epoch is it, and which backend does it have?
//	match.go              what are the steps of a match, with and without the lock?
//	nodes.go              how are nodes put, removed, listed, and marked up or down?
//	subgraphs.go          how are graphs added, removed and searched?
//	jobs.go               how are allocations updated, released and listed?
package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/traverser"
)

// Options configure an engine.
type Options struct {
	// Policy is the default policy, one of match.Policies. If it is empty, it is match.PolicyLonode.
	Policy string
	// Epoch returns a new epoch. Every Reset calls it. It must return neither 0 nor an epoch that was
	// used before, even across restarts. A random number is a good choice. Required.
	Epoch func() match.Epoch
	// Graph configures the traverser of graphs that are added. Graph.MatcherPolicy is the default
	// policy for such graphs. If it is empty, it is Policy.
	Graph traverser.Options
}

// An Engine is a match.Engine in memory.
type Engine struct {
	options Options

	mu    sync.Mutex
	epoch match.Epoch // 0 before the first Reset
	// panicked reports whether the epoch ended with a panic.
	// ready reports whether the graph is loaded.
	panicked, ready bool
	// backend holds the epoch's graph. It is a store until the epoch's first addition.
	backend backend
	// backendFixed reports whether something was added, so that the backend stays.
	backendFixed bool
	// traverser replaces backend if the epoch's first addition is a subgraph.
	traverser *traverserBackend
	sizes     sizes
	work      workLimits
}

var _ match.Engine = (*Engine)(nil)

// New returns an engine that was never reset: it answers match.ErrStale until Reset. It fails if
// the options are wrong.
func New(o Options) (*Engine, error) {
	if o.Policy == "" {
		o.Policy = match.PolicyLonode
	}
	if !slices.Contains(match.Policies(), o.Policy) {
		return nil, fmt.Errorf("engine options: unknown policy %q, must be one of %q", o.Policy, match.Policies())
	}
	if o.Epoch == nil {
		return nil, errors.New("engine options: Epoch is not set")
	}
	if o.Graph.MatcherPolicy == "" {
		o.Graph.MatcherPolicy = o.Policy
	}
	e := &Engine{options: o}
	e.work.lockedSteps, e.work.unlockedSteps, e.work.unlockedSem = lockedSteps, unlockedSteps, make(chan struct{}, 1)
	e.work.exhaustiveUnits = exhaustiveUnits
	if err := e.resetBackends(); err != nil {
		return nil, fmt.Errorf("engine options: graph: %w", err)
	}
	return e, nil
}

// resetBackends creates empty backends. The next addition chooses one of them.
func (e *Engine) resetBackends() error {
	t, err := traverser.New(e.options.Graph)
	if err != nil {
		return err
	}
	e.traverser = &traverserBackend{t}
	e.backend, e.backendFixed = newStoreBackend(e.options.Policy, &e.work), false
	return nil
}

// Reset implements match.Engine.
func (e *Engine) Reset(ctx context.Context) (match.Epoch, error) {
	e.mu.Lock()
	defer e.unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	next := e.options.Epoch()
	if next == 0 || next == e.epoch {
		return 0, fmt.Errorf("begin an epoch: Epoch returned %d, which must be neither 0 nor the current epoch %d", next, e.epoch)
	}
	if err := e.resetBackends(); err != nil {
		return 0, fmt.Errorf("begin an epoch: %w", err)
	}
	e.epoch = next
	e.panicked, e.ready = false, false
	return next, nil
}

// Ready implements match.Engine. A second call in the same epoch changes nothing.
func (e *Engine) Ready(ctx context.Context, at match.Epoch) error {
	e.mu.Lock()
	defer e.unlock()
	if err := e.checkEpoch(ctx, at); err != nil {
		return err
	}
	if !e.ready {
		e.backend.numberNodes()
		e.ready = true
	}
	return nil
}

// checkEpoch fails if the call's context has ended, or if the call was made for another epoch.
func (e *Engine) checkEpoch(ctx context.Context, at match.Epoch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.epoch == 0 || at != e.epoch {
		return fmt.Errorf("%w: the call is for epoch %d, the graph is at epoch %d", match.ErrStale, at, e.epoch)
	}
	if e.panicked {
		return fmt.Errorf("%w: the graph of epoch %d was lost by a panic; reset and load it again", match.ErrStale, e.epoch)
	}
	return nil
}

// unlock releases the engine's lock. If the call panicked, the backend may be half changed: unlock
// then ends the epoch, before another call can read the backend, and lets the panic go on.
// Invariant: callers defer unlock directly, because otherwise recover would not see the panic.
func (e *Engine) unlock() {
	defer e.mu.Unlock()
	if p := recover(); p != nil {
		e.panicked, e.ready = true, false
		e.sizes.ready.Store(false)
		panic(p)
	}
	// The sizes of a graph that was lost are not updated.
	if !e.panicked {
		jobs, slots, nodes := e.backend.sizes()
		e.sizes.set(jobs, slots, nodes, e.ready)
	}
}

// asStore returns the backend as a store. It fails if the epoch's graph began with AddSubgraph.
func (e *Engine) asStore() (*storeBackend, error) {
	p, ok := e.backend.(*storeBackend)
	if !ok {
		return nil, invalid("the graph was started with AddSubgraph: PutNode and RemoveNode do not work on it until a Reset")
	}
	return p, nil
}

// asTraverser returns the backend as a traverser, or the empty traverser if nothing was added yet.
// It fails if the epoch's graph began with PutNode or Update.
func (e *Engine) asTraverser() (*traverserBackend, error) {
	if !e.backendFixed {
		return e.traverser, nil
	}
	g, ok := e.backend.(*traverserBackend)
	if !ok {
		return nil, invalid("the graph was started with PutNode or Update: AddSubgraph, RemoveSubgraph and Find do not work on it until a Reset")
	}
	return g, nil
}
