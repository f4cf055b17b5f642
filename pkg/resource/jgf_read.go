package resource

import (
	"fmt"
	"unicode/utf8"
)

// ReadJGF reads a resource graph, or a part of a graph that begins at the root (RFC 4; RFC
// 20, "Scheduling"). If the text of a vertex lacks a key, the key has the default of Fluxion:
//
//	basename  the type
//	uniq_id   the number at the start of the vertex id
//	id        the digits at the end of the name for a node with a name, otherwise uniq_id
//	name      the basename and the id
//	rank      NoRank
//	size      1
//
// Unknown keys are ignored. An error names vertex or edge, key and value.
// ReadJGF also fails for a graph that (*Graph).Validate does not accept.
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

// WalkJGF reads a graph as ReadJGF does, but does not keep it. It calls vertex with every vertex
// in the order of the text, and then edge with every edge. The ends of an edge are indexes into
// that order. The Vertex and its maps are valid only during the call, but the strings may be kept.
// If vertex or edge returns an error, the walk ends, and WalkJGF returns that error wrapped.
//
// It fails if the text is not a graph: if it is not JSON, if a key is missing, there
// twice or of a wrong type, if two vertices have the same id, if an edge leads to a
// vertex that is not there, or if a vertex is invalid by itself. It does not check how
// the vertices relate to one another, as Validate does; that is left to the caller.
// Some vertices and edges may have been passed to the caller before the error is found.
func WalkJGF(data []byte, vertex func(*Vertex) error, edge func(Edge) error) error {
	return walkJGF(data, true, vertex, edge)
}

// walkJGF is WalkJGF if lent is set. Otherwise the caller may keep the maps of the vertices.
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

// graph reads {"graph": {"nodes": ..., "edges": ...}}.
// It calls vertex and edge with each vertex and edge.
func (r *reader) graph(vertex func(*node) error, edge func(Edge) error) error {
	there := false
	err := r.object(func(key []byte) error {
		if string(key) != "graph" {
			return r.skip()
		}
		if there {
			return fmt.Errorf("graph appears twice")
		}
		there = true
		return r.body(vertex, edge)
	})
	if err == nil && !there {
		err = fmt.Errorf("no graph")
	}
	return err
}

// body reads {"nodes": ..., "edges": ...}, in any order of the two keys.
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
			return fmt.Errorf("%s appears twice", key)
		}
		r.peek()
		*at = r.pos
		if string(key) == "nodes" {
			return r.nodes(vertex)
		}
		if nodes < 0 { // the edges refer to the nodes, so the nodes must be read first
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
			err = fmt.Errorf("vertex %q appears twice", n.id)
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
