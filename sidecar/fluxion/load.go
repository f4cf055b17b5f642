package fluxion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
)

// The library loads a graph in seconds or minutes, and knows no deadlines. So a graph is loaded in
// the background, and while that takes, calls that need it get match.ErrLoading. All other calls are
// answered meanwhile. Nobody else calls the library during a load, because it keeps state for the
// whole process.

// errNotLoaded means that a request needs a graph, or nodes, that are not in the library.
var errNotLoaded = errors.New("the graph of the library is not loaded")

const (
	// shortLoad is the longest load that is made whenever the graph is outdated. After a longer one the
	// graph is kept for keepFactor times as long, except for requests that need what it lacks. So
	// nodes that keep coming do not keep all requests waiting.
	shortLoad  = time.Second
	keepFactor = 10
	// bookedAtOnce is the number of hosts whose slots are booked before other calls get their turn.
	bookedAtOnce = 16
	// loadGrace and gracePerVertex bound a load that is at work. The library takes about 30
	// microseconds for a vertex.
	loadGrace      = time.Minute
	gracePerVertex = time.Millisecond
)

// A libraryState is what an engine has in the library, and what it knows about the library.
type libraryState struct {
	// session is the library with its graph loaded. It is nil while the graph must be loaded again.
	session *session
	// loading is the load that is under way. While its slots are booked there is a session too.
	loading *load
	// keepUntil is the time until which an outdated graph is kept, if it has what a request needs.
	keepUntil time.Time
	// untold is the error of a load for which nobody has waited.
	untold error
	// cannotGrow is true once the library has failed to grow or shrink a graph.
	cannotGrow bool
	// probed is true once the library was probed. Only loads use it, and wrap.
	probed bool
	// wrap turns JGF into the R that UpdateAllocate accepts, as the probe found out. It is nil if
	// UpdateAllocate accepts no form of R.
	wrap func(jgf string) string
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
}

// hasGraph reports whether the library has a graph in which all slots are booked. The graph may lack
// the latest changes of nodes.
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
	if time.Now().Before(e.keepUntil) {
		return false
	}
	for _, h := range e.hosts {
		if h.node != nil && !h.inGraph {
			return true
		}
	}
	return false
}

// Loading reports whether a graph is being loaded, and whether that takes so long that the library
// seems to hang.
func (e *Engine) Loading() (loading, overdue bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.loading == nil {
		return false, false
	}
	return true, time.Since(e.loading.began) > e.loading.bound
}

// dropGraph drops the library's graph, so that it is loaded again before the next match.
func (e *Engine) dropGraph() {
	if e.loading != nil {
		e.loading.dropped = true
	}
	if e.session != nil {
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
			s.ownJob = 0
		}
	}
}

// leaveGraph records that the library's graph no longer shows a host as it is, and cancels its jobs
// there. The host gets no slots until the graph is loaded again.
func (e *Engine) leaveGraph(h *host) {
	if h.inGraph {
		e.session.gone = append(e.session.gone, h.path)
	}
	jobs := []int64{h.restJob}
	h.restJob, h.restUnits, h.inGraph = 0, nil, false
	for _, s := range h.slots {
		jobs = append(jobs, s.ownJob)
		s.ownJob = 0
	}
	for _, job := range jobs {
		if job != 0 && e.session != nil {
			if err := e.session.cancel(job); err != nil {
				e.dropGraph()
			}
		}
	}
}

// waitForLoad has the graph loaded, if no load is under way, and waits for its end with the engine
// unlocked. It waits for half of the time that ctx leaves, so that the caller still gets the answer
// match.ErrLoading. The load goes on after that.
func (e *Engine) waitForLoad(ctx context.Context) error {
	if err := e.untold; err != nil {
		e.untold = nil
		return err
	}
	if !e.hasNodes() && e.loading == nil {
		return nil
	}
	if e.loading == nil {
		e.startLoad()
	}
	l := e.loading
	e.mu.Unlock()
	err := l.wait(ctx)
	e.mu.Lock()
	if err != nil && errors.Is(e.untold, err) {
		e.untold = nil
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
	old := e.session
	e.forgetGraph()
	e.loading = &load{done: make(chan struct{}), began: time.Now(), bound: loadGrace + time.Duration(vertices)*gracePerVertex}
	go e.load(e.loading, old, nodes)
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
func (e *Engine) load(l *load, old *session, nodes []drawnNode) {
	if old != nil {
		old.close()
	}
	s, err := e.openGraph(nodes)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		err = e.bookAll(l, s, nodes)
	}
	if l.dropped && !errors.Is(err, errDamaged) {
		err = nil // It is about a graph that is no longer wanted.
	}
	if took := time.Since(l.began); took >= shortLoad {
		e.keepUntil = time.Now().Add(keepFactor * took)
	}
	e.loading, e.untold, l.err = nil, err, err
	close(l.done)
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

// bookAll books all slots into a graph that has none of them. Hosts that have changed since the graph
// was drawn stay out. Between hosts it lets other calls in, which may change hosts that are booked.
func (e *Engine) bookAll(l *load, s *session, nodes []drawnNode) error {
	if l.dropped {
		s.close()
		return nil
	}
	e.session = s
	for i, n := range nodes {
		if i%bookedAtOnce == bookedAtOnce-1 {
			e.mu.Unlock()
			e.mu.Lock()
		}
		if l.dropped {
			return nil
		}
		h := e.hosts[n.name]
		if h == nil || h.node == nil || h.node.number != n.node.number || !sameLayout(h.node, n.node) {
			s.gone = append(s.gone, n.path)
			continue
		}
		if err := e.enterGraph(h, n.path); err != nil {
			return err
		}
	}
	return nil
}

// enterGraph records that the library's graph shows a host as it is, at this path, and books the
// host's slots. It drops the graph if that fails.
func (e *Engine) enterGraph(h *host, path string) error {
	h.inGraph, h.path = true, path
	if err := e.replay(h); err != nil {
		e.dropGraph()
		return fmt.Errorf("book the slots on node %q: %w", h.name, err)
	}
	return nil
}
