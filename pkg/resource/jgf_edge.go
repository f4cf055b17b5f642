package resource

import "fmt"

// edge reads one item of the edges (RFC 20, "Graph Edges").
func (r *reader) edge() (Edge, error) {
	e := Edge{Source: -1, Target: -1, Subsystem: Containment}
	more, err := r.enter('{', '}', "an object")
	for more && err == nil {
		if err = r.edgeField(&e); err == nil {
			more, err = r.next('}')
		}
	}
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

func (r *reader) edgeField(e *Edge) error {
	key, err := r.key()
	if err != nil {
		return err
	}
	switch string(key) {
	case "source":
		e.Source, err = r.vertexNumber()
		return in("source", err)
	case "target":
		e.Target, err = r.vertexNumber()
		return in("target", err)
	case "metadata":
		return in("metadata", r.edgeMetadata(e))
	}
	return r.skip()
}

func (r *reader) edgeMetadata(e *Edge) error {
	return r.object(func(key []byte) error {
		if string(key) != "subsystem" {
			return r.skip()
		}
		b, err := r.bytes()
		if err != nil {
			return in("subsystem", err)
		}
		if string(b) != e.Subsystem {
			e.Subsystem = r.keep(b)
		}
		return nil
	})
}

// vertexNumber reads the id of a vertex and returns its place in the order.
func (r *reader) vertexNumber() (int, error) {
	id, err := r.bytes()
	if err != nil {
		return -1, err
	}
	i, ok := r.ids.find(id)
	if !ok {
		return -1, fmt.Errorf("no vertex %q", id)
	}
	return i, nil
}
