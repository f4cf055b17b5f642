package fluxion

import (
	"context"
	"fmt"
)

const (
	// growAtOnce and growShare bound the nodes by which a graph grows: growAtOnce, or one node for
	// growShare nodes of the graph. With more, it is loaded again in the background.
	growAtOnce = 16
	growShare  = 16
)

// updateGraph makes the library's graph show all hosts as they are, without loading it again, if the
// library can do that. If it fails the graph is dropped, and later graphs do not grow.
func (e *Engine) updateGraph() {
	lib, ok := e.session.lib.(Grower)
	if !ok || e.cannotGrow {
		return
	}
	var nodes []drawnNode
	for _, h := range e.hosts {
		if h.node != nil && !h.inGraph {
			nodes = append(nodes, e.toDraw(h))
		}
	}
	if len(nodes)+len(e.session.gone) > max(growAtOnce, e.session.nodes/growShare) {
		return
	}
	if err := e.session.shrink(lib); err != nil {
		e.cannotGrow = true
		e.dropGraph()
		return
	}
	if len(nodes) == 0 {
		return
	}
	sortNodes(nodes)
	if err := e.session.grow(lib, nodes); err != nil {
		e.cannotGrow = true
		e.dropGraph()
		return
	}
	for _, n := range nodes {
		if e.enterGraph(e.hosts[n.name], n.path) != nil {
			return // The graph is dropped.
		}
	}
}

// shrink removes the nodes that are gone. Their jobs were cancelled before.
func (s *session) shrink(lib Grower) error {
	for _, path := range s.gone {
		if _, err := s.call(context.Background(), func() error { return lib.RemoveSubgraph(path) }); err != nil {
			return fmt.Errorf("remove %s from Fluxion's graph: %w", path, err)
		}
	}
	s.nodes -= len(s.gone)
	s.gone = nil
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
