// Package engine is the embedded match.Engine: one lock and one epoch over a backend, which is a
// store of nodes whose pools are divided exactly, or a traverser of graphs that are given out
// vertex by vertex.
//
// A call that panics while it has the engine ends the epoch. After it all calls are
// match.ErrStale until a Reset.
//
// Requests to a store hold slots at their top level and nothing else, each with a list of
// pools of one node and their amounts. Other jobspecs are match.ErrInvalid. The package starts no
// goroutine and does no I/O. It reads the clock for one thing only: to say how long a
// match waited for other calls.
//
// The work of a match in a store is bounded. In a graph that was added it is not: there a match
// holds the engine for as long as its walk takes.
//
// An allocation past its end holds until it is released. At any later time it
// counts as gone: the earliest reservation that relies on it begins one second
// after the present. The first request that books something at or after the end of a reservation
// drops it if nobody has claimed it.
//
// A request for whole nodes is given nodes where nobody else holds anything, or is
// promised anything, at any time from its beginning to its end. Other requests are never given
// nodes that are held or promised whole during their own time.
//
// Its files, each of which uses those before it:
//
//	work.go          how much may one match take, and who may go on beside the graph?
//	request.go       what is wrong with a request whatever the graph?
//	fingerprint.go   are two requests of a job the same?
//	backend.go       what does an engine ask of the graph that it has?
//	problem.go          which columns, levels and nodes of a graph does a demand mean?
//	explain.go        in which words is a request refused?
//	long_search.go        how does a match go on that takes more work than the engine is held for?
//	store_backend.go         in which steps is a match made, where nodes were put?
//	earliest.go      when is there room, if not now?
//	blocker.go  whose end would help most?
//	traverser_backend.go        how is a graph served that was added?
//	sizes.go         how much is held, for those who count?
//	engine.go        which epoch is it, and what is its graph made of?
//	match.go         in which steps is a match made, as long as others wait?
//	nodes.go         nodes come, go and turn up or down
//	subgraphs.go     graphs are added, removed and looked through
//	jobs.go          what jobs hold is said, released and listed
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

// Options are what an engine is made with.
type Options struct {
	// Policy is one of match.Policies and serves requests that name none.
	// Defaults to match.PolicyLonode.
	Policy string
	// Epoch draws the name of a new epoch at every Reset. What it returns must
	// never be 0 and never repeat, also across restarts, so a random number is a
	// good source. Required.
	Epoch func() match.Epoch
	// Graph is how graphs that are added are walked. Its MatcherPolicy serves
	// requests to such a graph that name no policy; Policy does if it is empty.
	Graph traverser.Options
}

// An Engine is a match.Engine in memory.
type Engine struct {
	options Options

	mu    sync.Mutex
	epoch match.Epoch // 0 before the first Reset
	// panicked says that the epoch ended with a panic.
	panicked, ready bool
	// backend has the epoch's graph. It is one of pools until the epoch has begun with something
	// else, and begun says that it stays what it is.
	backend      backend
	backendFixed bool
	// traverser is the backend that the epoch may still begin with.
	traverser *traverserBackend
	sizes     sizes
	work      work
}

var _ match.Engine = (*Engine)(nil)

// New returns an engine without a graph: it answers match.ErrStale until Reset.
// It fails if the options are wrong.
func New(o Options) (*Engine, error) {
	if o.Policy == "" {
		o.Policy = match.PolicyLonode
	}
	if !slices.Contains(match.Policies(), o.Policy) {
		return nil, fmt.Errorf("engine options: policy %q: none of %q", o.Policy, match.Policies())
	}
	if o.Epoch == nil {
		return nil, errors.New("engine options: no source of epochs")
	}
	if o.Graph.MatcherPolicy == "" {
		o.Graph.MatcherPolicy = o.Policy
	}
	e := &Engine{options: o}
	e.work.lockedSteps, e.work.longSteps, e.work.longSem = lockedSteps, longSteps, make(chan struct{}, 1)
	if err := e.resetBackends(); err != nil {
		return nil, fmt.Errorf("engine options: graph: %w", err)
	}
	return e, nil
}

// resetBackends begins with nothing, of which it is not said yet what the graph is made of.
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
		return 0, fmt.Errorf("begin an epoch: the source of epochs gave %d after %d", next, e.epoch)
	}
	if err := e.resetBackends(); err != nil {
		return 0, fmt.Errorf("begin an epoch: %w", err)
	}
	e.epoch = next
	e.panicked, e.ready = false, false
	return next, nil
}

// Ready implements match.Engine. A second call in an epoch changes nothing.
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

// checkEpoch fails for calls that came too late: those whose caller has gone, and
// those built on another epoch.
func (e *Engine) checkEpoch(ctx context.Context, at match.Epoch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.epoch == 0 || at != e.epoch {
		return fmt.Errorf("%w: the call is of %d, the graph of %d", match.ErrStale, at, e.epoch)
	}
	if e.panicked {
		return fmt.Errorf("%w: the graph was lost by a panic", match.ErrStale)
	}
	return nil
}

// unlock gives the engine to others. A panic may have left what it holds half changed: it goes on,
// and the epoch ends with it before another call looks at that.
func (e *Engine) unlock() {
	defer e.mu.Unlock()
	if p := recover(); p != nil {
		e.panicked, e.ready = true, false
		e.sizes.ready.Store(false)
		panic(p)
	}
	if !e.panicked { // and of what was lost nothing is counted any more
		jobs, slots, nodes := e.backend.sizes()
		e.sizes.set(jobs, slots, nodes, e.ready)
	}
}

// asStore returns the backend if it has pools, or may.
func (e *Engine) asStore() (*storeBackend, error) {
	p, ok := e.backend.(*storeBackend)
	if !ok {
		return nil, invalid("the graph was begun with AddSubgraph: nodes are not put into it, nor taken out of it by name")
	}
	return p, nil
}

// asTraverser returns the backend if it has graphs, or may.
func (e *Engine) asTraverser() (*traverserBackend, error) {
	if !e.backendFixed {
		return e.traverser, nil
	}
	g, ok := e.backend.(*traverserBackend)
	if !ok {
		return nil, invalid("the graph was begun with PutNode or Update: no subgraphs are added to it, removed or found")
	}
	return g, nil
}
