package fluxion

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const (
	// growAtOnce and growShare bound the nodes by which a graph grows: growAtOnce, or one node for
	// growShare nodes of the graph. With more, it is loaded again in the background. One call of the
	// library adds at most growAtOnce nodes.
	growAtOnce = 16
	growShare  = 16
)

// follow makes the library's graph and its bookings follow all changes, without loading the graph
// again, until a step is over. It reports whether that is done, as far as it is possible at all.
// After an error of the library the graph is dropped.
func (e *Engine) follow(ctx context.Context) (done bool) {
	over := step(ctx)
	done, err := e.settle(over)
	if err != nil {
		e.warnDropped(ctx, err)
		return false
	}
	return done && e.updateGraph(ctx, over)
}

// updateGraph makes the library's graph show all hosts as they are, if the library can grow and shrink
// it. It stops when a step is over, and reports whether that was not the case. If it fails, the graph
// does not grow until it was loaded again.
func (e *Engine) updateGraph(ctx context.Context, over func() bool) (done bool) {
	lib, ok := e.session.lib.(Grower)
	if !ok || e.cannotGrow {
		return true
	}
	var nodes []drawnNode
	for _, h := range e.hosts {
		if h.node != nil && !h.inGraph {
			nodes = append(nodes, e.toDraw(h))
		}
	}
	changes := len(nodes) + len(e.session.gone)
	if changes > max(growAtOnce, e.session.nodes/growShare) {
		return true
	}
	sortNodes(nodes)
	done, err := e.changeGraph(lib, nodes, over)
	if err != nil {
		e.noteGrowthFailure(ctx, err)
		return false
	}
	if !done {
		return false
	}
	e.growthFails = e.growthFails && changes == 0
	done, err = e.settle(over)
	if err != nil {
		e.warnDropped(ctx, err)
	}
	return done
}

// noteGrowthFailure logs why the graph cannot grow or shrink, if it could before. It drops the graph,
// unless the library was not called.
func (e *Engine) noteGrowthFailure(ctx context.Context, err error) {
	if !e.growthFails {
		e.options.Log.WarnContext(ctx, "Fluxion's graph cannot grow or shrink, and is loaded again instead", "reason", err)
	}
	e.cannotGrow, e.growthFails = true, true
	if !errors.Is(err, errNoNumbers) {
		e.dropGraph()
	}
}

// changeGraph removes the nodes that are gone from the library's graph, and adds nodes, until a step
// is over. What is held on the new nodes is still to be booked.
func (e *Engine) changeGraph(lib Grower, nodes []drawnNode, over func() bool) (done bool, err error) {
	for len(e.session.gone) > 0 {
		if over() {
			return false, nil
		}
		if err := e.session.shrink(lib); err != nil {
			return false, err
		}
	}
	for part := range slices.Chunk(nodes, growAtOnce) {
		if over() {
			return false, nil
		}
		if err := e.session.grow(lib, part); err != nil {
			return false, err
		}
		for _, n := range part {
			e.enterGraph(e.hosts[n.name], n.path)
		}
	}
	return true, nil
}

// shrink removes one of the nodes that are gone. Its jobs were cancelled before.
func (s *session) shrink(lib Grower) error {
	path := s.gone[0]
	if _, err := s.call(context.Background(), func() error { return lib.RemoveSubgraph(path) }); err != nil {
		return fmt.Errorf("remove %s from Fluxion's graph: %w", path, err)
	}
	s.gone = s.gone[1:]
	s.nodes--
	return nil
}

// grow adds nodes, and sets their paths.
func (s *session) grow(lib Grower, nodes []drawnNode) error {
	text, err := s.drawing.draw(nodes)
	if err != nil {
		return fmt.Errorf("encode the new nodes as JGF: %w", err)
	}
	if _, err := s.call(context.Background(), func() error { return lib.AddSubgraph(text) }); err != nil {
		return fmt.Errorf("add nodes to Fluxion's graph: %w", err)
	}
	s.nodes += len(nodes)
	return nil
}
