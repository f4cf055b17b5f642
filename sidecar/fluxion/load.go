package fluxion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
)

// The library loads a graph in seconds or minutes, and knows no deadlines. So a graph is loaded in
// the background, and while that takes, calls that need it get match.ErrLoading. All other calls are
// answered meanwhile. Nobody else calls the library during a load, because it keeps state for the
// whole process. The graph of before is kept until the new one is loaded, if there is memory for
// both. So it goes on being used if the load fails.

// errNotLoaded means that a request needs a graph, or nodes, that are not in the library.
var errNotLoaded = errors.New("the graph of the library is not loaded")

const (
	// shortLoad is the longest load that is made whenever the graph is outdated. After a longer one the
	// graph is kept for keepFactor times as long, except for requests that need what it lacks. So
	// nodes that keep coming do not keep all requests waiting.
	shortLoad  = time.Second
	keepFactor = 10
	// minLoadBackoff is the pause after a load that has failed. It doubles with each further failure,
	// up to maxLoadBackoff.
	minLoadBackoff = time.Second
	maxLoadBackoff = time.Minute
	// loadGrace and gracePerVertex bound a load that is at work. The library takes about 30
	// microseconds for a vertex.
	loadGrace      = time.Minute
	gracePerVertex = time.Millisecond
	// bytesPerVertex is the memory that the library takes for a vertex, at the most, while it loads.
	bytesPerVertex = 8 << 10
)

// A libraryState is what an engine has in the library, and what it knows about the library.
type libraryState struct {
	// session is the library with its graph loaded. It is nil while the graph must be loaded again.
	// During a load it is the graph of before, if that is kept, and then the new one, once its slots
	// are being booked.
	session *session
	// loading is the load that is under way.
	loading *load
	// keepUntil is the time until which an outdated graph is kept, if it has what a request needs.
	keepUntil time.Time
	// failure is why the last load has failed. It is nil if that load has not failed.
	failure atomic.Pointer[loadFailure]
	// untold is true if no caller has got the last failure.
	untold bool
	// cannotGrow is true if the library has failed to grow or shrink the graph that is loaded.
	cannotGrow bool
	// growthFails is true from a failure to grow or shrink a graph to the next success.
	growthFails bool
	// probed is true once the library was probed. Only loads use it, and wrap.
	probed bool
	// wrap turns JGF into the R that UpdateAllocate accepts, as the probe found out. It is nil if
	// UpdateAllocate accepts no form of R.
	wrap func(jgf string) string
}

// A loadFailure is the last of several loads in a row that have failed.
type loadFailure struct {
	err error
	// pause is the time from the failure to the next load, which may begin at until.
	pause time.Duration
	until time.Time
}

// A load loads one graph into the library, and books all slots.
type load struct {
	// done is closed at the end. After that err is the reason of a failure.
	done chan struct{}
	err  error
	// dropped means that the graph is no longer wanted.
	dropped bool
	began   time.Time
	// bound is the time after which the load counts as hanging.
	bound time.Duration
	// old is the graph of before. It is nil if there is none. If it is kept it is closed when the new
	// one is loaded, otherwise before.
	old  *session
	kept bool
	// booking is true from the time at which the new graph is loaded. Until then only the load itself
	// may call the library.
	booking bool
}

// hasGraph reports whether the library has a graph, and may be called. The graph may lack the latest
// changes of nodes, and some slots may still have to be booked in it.
func (e *Engine) hasGraph() bool { return e.session != nil && e.loading == nil }

// hasNodes reports whether there is anything to load.
func (e *Engine) hasNodes() bool {
	for _, h := range e.hosts {
		if h.node != nil {
			return true
		}
	}
	return false
}

// isDue reports whether the graph is outdated, and has been kept for long enough.
func (e *Engine) isDue() bool {
	lacks := false
	for _, h := range e.hosts {
		lacks = lacks || h.node != nil && !h.inGraph
	}
	if !lacks {
		if e.hasGraph() {
			e.failure.Store(nil) // What the graph lacked is gone, or has come into it.
		}
		return false
	}
	now, f := time.Now(), e.failure.Load()
	return !now.Before(e.keepUntil) && (f == nil || !now.Before(f.until))
}

// Loading reports whether a graph is being loaded, and whether that takes so long that the library
// seems to hang.
func (e *Engine) Loading() (loading, overdue bool) {
	e.mu.acquireAnyway()
	defer e.mu.release()
	if e.loading == nil {
		return false, false
	}
	return true, time.Since(e.loading.began) > e.loading.bound
}

// dropGraph drops the library's graph, so that it is loaded again before the next match.
func (e *Engine) dropGraph() {
	mayClose := true
	if e.loading != nil {
		// The load closes the graph of before, because nobody else may call the library now.
		e.loading.dropped, mayClose = true, e.loading.booking
	}
	if e.session != nil && mayClose {
		e.session.close()
	}
	e.forgetGraph()
}

// forgetGraph records that the library has booked nothing.
func (e *Engine) forgetGraph() {
	e.session = nil
	for _, h := range e.hosts {
		h.restJob, h.restUnits, h.inGraph = 0, nil, false
		for _, s := range h.slots {
			s.ownJob, s.units = 0, nil
		}
	}
}

// leaveGraph records that the library's graph no longer shows a host as it is, and ends its jobs
// there. The host gets no slots until the graph shows it again.
func (e *Engine) leaveGraph(h *host) {
	if !h.inGraph {
		return
	}
	e.session.gone = append(e.session.gone, h.path)
	e.session.ended = append(e.session.ended, h.restJob)
	h.restJob, h.restUnits, h.inGraph = 0, nil, false
	for _, s := range h.slots {
		e.session.ended = append(e.session.ended, s.ownJob)
		s.ownJob, s.units = 0, nil
	}
}

// waitForLoad has the graph loaded, if no load is under way, and waits for its end with the engine
// unlocked. It waits for half of the time that ctx leaves, so that the caller still gets the answer
// match.ErrLoading. The load goes on after that. For a while after a load that has failed, no other
// begins, and the error is why it has failed.
func (e *Engine) waitForLoad(ctx context.Context) error {
	if e.loading == nil {
		if f := e.failure.Load(); f != nil && (e.untold || time.Now().Before(f.until)) {
			e.untold = false
			return f.err
		}
		if !e.hasNodes() {
			return nil
		}
		e.startLoad()
	}
	l := e.loading
	e.mu.release()
	err := l.wait(ctx)
	e.mu.acquireAnyway()
	if f := e.failure.Load(); f != nil && errors.Is(err, f.err) {
		e.untold = false
	}
	return err
}

func (l *load) wait(ctx context.Context) error {
	var over <-chan time.Time
	if deadline, ok := ctx.Deadline(); ok {
		timer := time.NewTimer(time.Until(deadline) / 2)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-l.done:
		return l.err
	case <-over:
		return match.ErrLoading
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startLoad begins a load of all nodes.
func (e *Engine) startLoad() {
	var nodes []drawnNode
	vertices := int64(0)
	for _, h := range e.hosts {
		if h.node == nil {
			continue
		}
		nodes = append(nodes, e.toDraw(h))
		for _, n := range h.node.units {
			vertices += n
		}
	}
	sortNodes(nodes)
	e.loading = &load{
		done: make(chan struct{}), began: time.Now(), bound: loadGrace + time.Duration(vertices)*gracePerVertex, old: e.session,
		kept: e.session != nil && (e.options.MemoryLeft == nil || e.options.MemoryLeft() >= vertices*bytesPerVertex),
	}
	if !e.loading.kept {
		e.forgetGraph()
	}
	go e.load(e.loading, nodes)
}

// toDraw returns how a host is drawn. The names of types may change later, so they are read here.
func (e *Engine) toDraw(h *host) drawnNode {
	return drawnNode{name: h.name, node: h.node, need: e.granules.needs(h.node.units)}
}

// sortNodes sorts nodes by number.
func sortNodes(nodes []drawnNode) {
	slices.SortFunc(nodes, func(a, b drawnNode) int { return cmp.Compare(a.node.number, b.node.number) })
}

// load carries out a load, which nobody else carries out at the same time.
func (e *Engine) load(l *load, nodes []drawnNode) {
	if l.old != nil && !l.kept {
		l.old.close()
	}
	s, err := e.openGraph(nodes)
	if err == nil && l.kept {
		l.old.close()
	}
	e.mu.acquireAnyway()
	defer e.mu.release()
	switch {
	case l.dropped && err == nil:
		s.close()
	case l.dropped:
		if l.kept {
			l.old.close()
		}
		err = nil // It is about a graph that is no longer wanted.
	case err == nil:
		err = e.bookAll(l, s, nodes)
	}
	switch {
	case err != nil:
		e.noteLoadFailure(err)
	case s != nil && e.session == s:
		e.failure.Store(nil)
		e.untold, e.cannotGrow = false, false
		if took := time.Since(l.began); took >= shortLoad {
			e.keepUntil = time.Now().Add(keepFactor * took)
		}
	}
	e.loading, l.err = nil, err
	close(l.done)
}

// noteLoadFailure records why a load has failed, and for how long no other begins.
func (e *Engine) noteLoadFailure(err error) {
	f := &loadFailure{err: err, pause: minLoadBackoff}
	if last := e.failure.Load(); last != nil {
		f.pause = min(2*last.pause, maxLoadBackoff)
	}
	f.until = time.Now().Add(f.pause)
	e.failure.Store(f)
	e.untold = true
}

// whyNotLoaded returns the error of the last load if it has failed. It does not need the lock.
func (e *Engine) whyNotLoaded() error {
	if f := e.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// openGraph loads the graph of these nodes into the library.
func (e *Engine) openGraph(nodes []drawnNode) (*session, error) {
	if !e.probed {
		wrap, err := probe(e.options.Open)
		if err != nil {
			return nil, err
		}
		e.probed, e.wrap = true, wrap
	}
	lib := e.options.Open()
	_, mayGrow := lib.(Grower)
	d := newDrawing(e.options.Policy, nodes, mayGrow)
	text, err := d.draw(nodes)
	if err != nil {
		lib.Destroy()
		return nil, fmt.Errorf("encode the graph as JGF: %w", err)
	}
	options, err := loadOptions(e.options.Policy, nodes)
	if err != nil {
		lib.Destroy()
		return nil, fmt.Errorf("encode the options of the graph: %w", err)
	}
	s, err := openSession(lib, text, options)
	if err != nil {
		return nil, err
	}
	s.wrap, s.drawing, s.nodes = e.wrap, d, len(nodes)
	return s, nil
}

// bookAll puts a new graph in the place of the one of before, and books all slots in it. Hosts that
// have changed since the graph was drawn stay out. After each step it lets other calls in.
func (e *Engine) bookAll(l *load, s *session, nodes []drawnNode) error {
	e.forgetGraph()
	e.session, l.booking = s, true
	for _, n := range nodes {
		h := e.hosts[n.name]
		if h == nil || h.node == nil || h.node.number != n.node.number || !sameLayout(h.node, n.node) {
			s.gone = append(s.gone, n.path)
			continue
		}
		e.enterGraph(h, n.path)
	}
	for {
		done, err := e.settle(step(context.Background()))
		if done || err != nil {
			return err
		}
		e.mu.yield()
		if l.dropped {
			return nil
		}
	}
}

// enterGraph records that the library's graph shows a host as it is, at this path. Its slots are still
// to be booked.
func (e *Engine) enterGraph(h *host, path string) {
	h.inGraph, h.path = true, path
	e.session.unbooked[h] = true
}
