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
	g := &Graph{}
	err := walkJGF(data, false, func(v *Vertex) error {
		g.Vertices = append(g.Vertices, *v)
		return nil
	}, func(e Edge) error {
		g.Edges = append(g.Edges, e)
		return nil
	})
	if err == nil {
		err = g.checkPlaces()
	}
	if err == nil {
		err = g.checkEdges()
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// WalkJGF reads a graph as ReadJGF does without keeping it: it calls vertex with
// every vertex in the order of the text, and then edge with every edge, whose
// ends are numbers of vertices in that order. A Vertex and its maps are only
// lent for the call; strings may be kept. An error of theirs ends the walk and is
// wrapped.
//
// It fails where the text is not a graph: for what is not JSON, keys that are
// missing, there twice or of a wrong type, vertices of the same id, edges to a
// vertex that is not there, and for a vertex that is unsound by itself. How the
// vertices stand to one another, which Validate looks at, is the caller's to
// judge. Some vertices and edges may have been given before the error is found.
func WalkJGF(data []byte, vertex func(*Vertex) error, edge func(Edge) error) error {
	return walkJGF(data, true, vertex, edge)
}

// walkJGF walks with maps that are lent, or that the caller may keep.
func walkJGF(data []byte, lent bool, vertex func(*Vertex) error, edge func(Edge) error) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("graph is not UTF-8")
	}
	r := newReader(data)
	r.words = newWords(len(data))
	if lent {
		r.paths, r.properties = map[string]string{}, map[string]string{}
	}
	err := r.graph(func(n *node) error {
		if err := n.check(); err != nil {
			return err
		}
		return vertex(&n.Vertex)
	}, edge)
	if err != nil {
		return err
	}
	return r.end()
}

// graph reads {"graph": {"nodes": ..., "edges": ...}}, calling vertex and edge
// with what it finds.
func (r *reader) graph(vertex func(*node) error, edge func(Edge) error) error {
	there := false
	err := r.object(func(key []byte) error {
		if string(key) != "graph" {
			return r.skip()
		}
		if there {
			return fmt.Errorf("graph is there twice")
		}
		there = true
		return r.body(vertex, edge)
	})
	if err == nil && !there {
		err = fmt.Errorf("no graph")
	}
	return err
}

func (r *reader) body(vertex func(*node) error, edge func(Edge) error) error {
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
			return r.nodes(vertex)
		}
		if nodes < 0 { // edges refer to the nodes, so those have to be read first
			return r.skip()
		}
		return r.edges(edge)
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
	err = r.edges(edge)
	r.pos = end
	return err
}

func (r *reader) nodes(vertex func(*node) error) error {
	var n node
	return in("nodes", r.array(func(i int) error {
		err := r.node(&n)
		switch {
		case err != nil:
		case !r.ids.add(n.id, i):
			err = fmt.Errorf("vertex %q is there twice", n.id)
		default:
			err = n.within(vertex(&n))
		}
		if err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		return nil
	}))
}

func (r *reader) edges(edge func(Edge) error) error {
	return in("edges", r.array(func(i int) error {
		e, err := r.edge()
		if err == nil {
			err = edge(e)
		}
		if err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		return nil
	}))
}
