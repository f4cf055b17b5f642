// Package fluxion is a match.Engine over Fluxion, the matcher of the Flux project.
//
// # Granules
//
// Fluxion gives out whole vertices, so pools are cut into granules, also called units. A node has
// one vertex for each whole granule of a pool. A granule is 1 CPU, 1 GiB or, for resources without
// a unit of measure, 1. A slot takes its amounts rounded up to granules. The slots on a node that
// were not matched here are summed by type, and the sum is rounded up once.
//
// # Who decides
//
// A second engine, the shadow, has the same nodes and slots in exact amounts. It is the embedded
// engine. It checks requests, answers repeated requests, refuses requests without room, and lists
// nodes and jobs. Fluxion decides only where slots go. A slot request is one match. The slot
// requests of one jobspec are matched one after the other, all or none. Fluxion's jobspec cannot
// express Near, limits and topology, and matching shape after shape may fail although a placement
// exists. In these cases the shadow plans in granules, and Fluxion is asked node by node.
//
// Down nodes, nodes of other holders and constraints reach
// Fluxion as the list of the hosts that may be used.
//
// # The graph in the library
//
// The library (fluxion-go v0.39.0) can neither grow nor shrink a graph, except in builds with the tag
// fluxion_subgraph: see Grower. After a node was added or
// changed its units, the graph is loaded again before the next match, and all slots are booked
// again. So many changes cost one load. Nodes that are removed, or change between up and down,
// cost none.
//
// A load takes seconds in large clusters. It runs in the background, all calls but Match and Ready are
// answered meanwhile, and these two say match.ErrLoading. After a load that took long, the graph is
// kept for a while although it is outdated: only requests that do not fit without the newest nodes
// have it loaded again. If a load fails, the graph of before is used, and no other load begins for a
// while.
//
// # Bookings in the library
//
// A change of what is held counts at once in the shadow. The library follows in steps (see settle),
// and between two steps other calls get their turn. Until it has followed, a host gets no slots.
package fluxion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
)

// Options are the options of an engine.
type Options struct {
	// Policy is one of match.Policies. The library's graph
	// is loaded with it. Defaults to match.PolicyLonode.
	Policy string
	// Epoch returns a new epoch, as in engine.Options. Required.
	Epoch func() match.Epoch
	// Open returns a client of the library without a graph. Required.
	Open func() Library
	// Granules has the granule size by resource type, in the unit of measure in which the type is
	// counted (such as m or B). Each is at least 1. Any other type has the default size for its
	// unit of measure: see DefaultGranules.
	Granules map[string]int64
	// MemoryLeft returns the bytes that the process may still take. The graph of before is kept during
	// a load only if the new one fits too. Defaults to none, which means that it always fits.
	MemoryLeft func() int64
	// Log gets a line for each failure that no caller gets. Defaults to none.
	Log *slog.Logger
}

// An Engine is a match.Engine that matches with Fluxion.
type Engine struct {
	options Options
	shadow  *engine.Engine

	mu       lock
	epoch    match.Epoch // 0 before the first Reset
	numbered bool        // the nodes have their numbers, from the first Ready on
	ready    atomic.Bool // the graph was loaded in this epoch
	names    typeNames
	granules granules
	hosts    map[string]*host
	levelUp  map[string]bool
	// jobs has the host of each slot, by job and key.
	jobs       map[match.JobID]map[string]*host
	answers    map[match.JobID]pastAnswer
	nextNumber int64 // the next number of a node
	libraryState
}

var _ match.Engine = (*Engine)(nil)

// New returns an engine without a graph, which answers
// match.ErrStale until Reset. It fails if the options are invalid.
func New(o Options) (*Engine, error) {
	if o.Policy == "" {
		o.Policy = match.PolicyLonode
	}
	if o.Open == nil {
		return nil, errors.New("fluxion options: no library")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, poolType := range slices.Sorted(maps.Keys(o.Granules)) {
		if n := o.Granules[poolType]; n < 1 {
			return nil, fmt.Errorf("fluxion options: granules: %q: %d: must be at least 1", poolType, n)
		}
	}
	if match.IsExclusive(o.Policy) {
		return nil, fmt.Errorf("fluxion options: policy %q takes whole nodes, the policy of a graph must not; ask for whole nodes in a request", o.Policy)
	}
	if p, known := match.PolicyOf(o.Policy); known && !p.InFluxion {
		return nil, fmt.Errorf("fluxion options: policy %q is not one of the library's", o.Policy)
	}
	shadow, err := engine.New(engine.Options{Policy: o.Policy, Epoch: o.Epoch})
	if err != nil {
		return nil, fmt.Errorf("fluxion options: %w", err)
	}
	return &Engine{options: o, shadow: shadow, mu: newLock(), names: newTypeNames()}, nil
}

// Policies returns the policies that requests may name if the library's
// graph is loaded with a policy: all that fill nodes in the same order. Of
// the policies that take whole nodes only match.PolicyLonodex is among them.
func Policies(loaded string) []string {
	var alike []string
	of, _ := match.PolicyOf(loaded)
	for _, name := range match.Policies() {
		p, _ := match.PolicyOf(name)
		if p.Order == of.Order && p.InFluxion {
			alike = append(alike, name)
		}
	}
	return alike
}

// Reset implements match.Engine.
func (e *Engine) Reset(ctx context.Context) (match.Epoch, error) {
	if err := e.mu.acquire(ctx); err != nil {
		return 0, err
	}
	defer e.mu.release()
	next, err := e.shadow.Reset(ctx)
	if err != nil {
		return 0, err
	}
	e.dropGraph()
	// The last failure stays, so that resets do not have one load after the other fail.
	e.epoch, e.numbered, e.untold, e.keepUntil = next, false, false, time.Time{}
	e.ready.Store(false)
	e.granules = newGranules(e.options.Granules, e.names)
	e.hosts = make(map[string]*host)
	e.levelUp = make(map[string]bool)
	e.jobs = make(map[match.JobID]map[string]*host)
	e.answers = make(map[match.JobID]pastAnswer)
	e.nextNumber = 0
	return next, nil
}

// Ready implements match.Engine. It has the graph loaded into the library, and fails if that fails.
// While the library loads, the error is match.ErrLoading. After an error it can be called again. Once
// it has succeeded it waits for nothing, and fails if the last load has failed: then the graph of
// before still counts, or there is none until a load succeeds.
func (e *Engine) Ready(ctx context.Context, at match.Epoch) error {
	if e.ready.Load() {
		if err := e.shadow.Update(ctx, at); err != nil { // It checks the epoch.
			return err
		}
		if err := e.whyNotLoaded(); err != nil {
			return fmt.Errorf("ready: %w", err)
		}
		return nil
	}
	if err := e.mu.acquire(ctx); err != nil {
		return err
	}
	defer e.mu.release()
	for {
		if err := e.checkEpoch(ctx, at); err != nil {
			return err
		}
		if e.ready.Load() {
			return nil
		}
		if !e.numbered {
			e.assignNumbers()
			if err := e.shadow.Ready(context.WithoutCancel(ctx), at); err != nil {
				return err
			}
			e.numbered = true
		}
		if !e.hasNodes() {
			e.failure.Store(nil) // There is nothing to load.
			e.ready.Store(true)
			return nil
		}
		if e.hasGraph() {
			e.ready.Store(true)
			return nil
		}
		if err := e.waitForLoad(ctx); err != nil {
			return fmt.Errorf("ready: %w", err)
		}
	}
}

// Close frees the library's graph, and waits for a load that is under way. The engine may be used
// again after it.
func (e *Engine) Close() {
	e.mu.acquireAnyway()
	e.dropGraph()
	l := e.loading
	e.mu.release()
	if l != nil {
		<-l.done
	}
}

// assignNumbers numbers the nodes in the order of their names.
func (e *Engine) assignNumbers() {
	e.nextNumber = 0
	for _, name := range slices.Sorted(maps.Keys(e.hosts)) {
		if n := e.hosts[name].node; n != nil {
			n.number = e.newNumber()
		}
	}
}

func (e *Engine) newNumber() int64 {
	e.nextNumber++
	return e.nextNumber - 1
}

// checkEpoch fails for calls that are too late: calls whose context has ended, and calls of another
// epoch.
func (e *Engine) checkEpoch(ctx context.Context, at match.Epoch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.epoch == 0 || at != e.epoch {
		return fmt.Errorf("%w: the call is for epoch %d, the graph is at epoch %d", match.ErrStale, at, e.epoch)
	}
	return nil
}

// invalid returns the error for invalid arguments.
func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: %w", match.ErrInvalid, fmt.Errorf(format, a...))
}
