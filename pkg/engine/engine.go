// Package engine is the embedded match.Engine: the resource graph in memory, and
// a matcher that divides the pools of nodes exactly.
//
// A call that panics while it has the graph ends the epoch, so that after it all calls are
// match.ErrStale until a Reset.
//
// It takes requests whose top level holds slots and nothing else, each with a
// list of pools of one node and their amounts. Other jobspecs are ErrInvalid. It
// starts no goroutine and does no I/O. It reads the clock for one thing only: to say how long a
// match waited for other calls.
//
// The work of a match is bounded in a graph of nodes that were put. In a graph of subgraphs
// that were added it is not: there a match holds the engine for as long as its walk takes.
//
// An allocation past its end holds until it is released. At any later time it
// counts as gone: the earliest reservation that relies on it begins one second
// after the present. A reservation that nobody claims is dropped by the first
// request to book something at or after its end.
//
// A request for whole nodes is given those where nobody else holds anything, or is
// promised anything, at any time from its beginning to its end; and so are others
// kept from nodes that belong to somebody as a whole at any time of theirs.
package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

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
	// lost says that the epoch ended with a panic.
	lost, ready bool
	making      making
	// added is the graph that was added; empty if it is made of nodes.
	added *traverser.Traverser
	graph graph
	hosts map[string]*host
	// names lists the hosts in order; nil until somebody asks for it.
	names    []string
	jobs     map[match.JobID]*job
	promises promises
	stood    uint64 // counts the slots ever stood, to keep their order
	held     int    // counts the slots that stand
	sizes    sizes
	ignoring ignoring
	space    workspace
	// brief is briefWork and lengthy longWork, but in tests.
	brief, lengthy int
	// overrun is the most steps that a match took although none were left for it.
	overrun atomic.Int64
	// long is held by the one match that goes on beside the graph.
	long chan struct{}
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
	added, err := traverser.New(o.Graph)
	if err != nil {
		return nil, fmt.Errorf("engine options: graph: %w", err)
	}
	return &Engine{options: o, added: added, brief: briefWork, lengthy: longWork, long: make(chan struct{}, 1)}, nil
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
	added, err := traverser.New(e.options.Graph)
	if err != nil {
		return 0, fmt.Errorf("begin an epoch: %w", err)
	}
	e.epoch = next
	e.lost, e.ready = false, false
	e.making, e.added = undecided, added
	e.graph = newGraph()
	e.hosts = make(map[string]*host)
	e.names = nil
	e.jobs = make(map[match.JobID]*job)
	e.promises = newPromises()
	e.stood, e.held = 0, 0
	e.ignoring = ignoring{}
	e.space = workspace{}
	return next, nil
}

// Ready implements match.Engine. A second call in an epoch changes nothing.
func (e *Engine) Ready(ctx context.Context, at match.Epoch) error {
	e.mu.Lock()
	defer e.unlock()
	if err := e.admit(ctx, at); err != nil {
		return err
	}
	if !e.ready {
		e.graph.number()
		e.ready = true
	}
	return nil
}

// admit fails for calls that came too late: those whose caller has gone, and
// those built on another epoch.
func (e *Engine) admit(ctx context.Context, at match.Epoch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.epoch == 0 || at != e.epoch {
		return fmt.Errorf("%w: the call is of %d, the graph of %d", match.ErrStale, at, e.epoch)
	}
	if e.lost {
		return fmt.Errorf("%w: the graph was lost by a panic", match.ErrStale)
	}
	return nil
}

// unlock gives the engine to others. A panic may have left what it holds half changed: it goes on,
// and the epoch ends with it before another call looks at that.
func (e *Engine) unlock() {
	defer e.mu.Unlock()
	if p := recover(); p != nil {
		e.lost, e.ready = true, false
		e.sizes.ready.Store(false)
		panic(p)
	}
	e.noteSizes()
}

// invalid is the error for arguments that are wrong.
func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %w", match.ErrInvalid, fmt.Errorf(format, a...))
}
