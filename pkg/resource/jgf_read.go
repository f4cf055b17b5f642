package resource

import (
	"fmt"
	"unicode/utf8"
)

// ReadJGF reads a resource graph, or a part of one that begins at the root (RFC
// 4; RFC 20, "Scheduling"). What a vertex may leave out takes the defaults that
// Fluxion gives it: basename is the type, id the uniq_id or, of a node with a
// name, the digits that the name ends in, name the basename and the id, uniq_id
// the number that the vertex id begins with, rank NoRank, size 1. Keys that are
// not known are passed over. An error names vertex or edge, key and value; see
// (*Graph).Validate for what makes a graph unsound.
func ReadJGF(data []byte) (*Graph, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("graph is not UTF-8")
	}
	r := reader{cursor: cursor{data: data}, words: map[string]string{}}
	g := &Graph{}
	ids := map[string]int{}
	err := r.graph(ids, func(n *node) error {
		g.Vertices = append(g.Vertices, n.Vertex)
		return nil
	}, func(e Edge) { g.Edges = append(g.Edges, e) })
	if err == nil {
		err = r.end()
	}
	if err == nil {
		err = g.check()
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// graph reads {"graph": {"nodes": ..., "edges": ...}}, calling vertex and edge
// with what it finds, and fills ids with the indexes of the vertices.
func (r *reader) graph(ids map[string]int, vertex func(*node) error, edge func(Edge)) error {
	there := false
	err := r.object(func(key []byte) error {
		if string(key) != "graph" {
			return r.skip()
		}
		if there {
			return fmt.Errorf("graph is there twice")
		}
		there = true
		return r.body(ids, vertex, edge)
	})
	if err == nil && !there {
		err = fmt.Errorf("no graph")
	}
	return err
}

func (r *reader) body(ids map[string]int, vertex func(*node) error, edge func(Edge)) error {
	nodes, edges := -1, -1
	err := r.object(func(key []byte) error {
		at := &nodes
		switch string(key) {
		case "nodes":
		case "edges":
			at = &edges
		default:
			return r.skip()
		}
		if *at >= 0 {
			return fmt.Errorf("%s is there twice", key)
		}
		r.peek()
		*at = r.pos
		if string(key) == "nodes" {
			return r.nodes(ids, vertex)
		}
		if nodes < 0 { // edges refer to the nodes, so those have to be read first
			return r.skip()
		}
		return r.edges(ids, edge)
	})
	switch {
	case err != nil:
		return err
	case nodes < 0:
		return fmt.Errorf("graph has no nodes")
	case edges < 0:
		return fmt.Errorf("graph has no edges")
	case edges > nodes:
		return nil
	}
	end := r.pos
	r.pos = edges
	err = r.edges(ids, edge)
	r.pos = end
	return err
}

func (r *reader) nodes(ids map[string]int, vertex func(*node) error) error {
	var n node
	return in("nodes", r.array(func(i int) error {
		if err := r.node(&n); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		if _, twice := ids[n.id]; twice {
			return fmt.Errorf("item %d: vertex %q is there twice", i, n.id)
		}
		ids[n.id] = i
		return n.within(vertex(&n))
	}))
}

func (r *reader) edges(ids map[string]int, edge func(Edge)) error {
	return in("edges", r.array(func(i int) error {
		e, err := r.edge(ids)
		if err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		edge(e)
		return nil
	}))
}

// edge reads one item of the edges (RFC 20, "Graph Edges").
func (r *reader) edge(ids map[string]int) (Edge, error) {
	e := Edge{Source: -1, Target: -1, Subsystem: Containment}
	err := r.object(func(key []byte) error {
		switch string(key) {
		case "source":
			return in("source", r.vertexIndex(&e.Source, ids))
		case "target":
			return in("target", r.vertexIndex(&e.Target, ids))
		case "metadata":
			return in("metadata", r.object(func(key []byte) (err error) {
				if string(key) != "subsystem" {
					return r.skip()
				}
				e.Subsystem, err = r.word()
				return in("subsystem", err)
			}))
		}
		return r.skip()
	})
	switch {
	case err != nil:
		return e, err
	case e.Source < 0:
		return e, fmt.Errorf("no source")
	case e.Target < 0:
		return e, fmt.Errorf("no target")
	}
	return e, nil
}

func (r *reader) vertexIndex(to *int, ids map[string]int) error {
	id, err := r.bytes()
	if err != nil {
		return err
	}
	i, ok := ids[string(id)]
	if !ok {
		return fmt.Errorf("no vertex %q", id)
	}
	*to = i
	return nil
}
