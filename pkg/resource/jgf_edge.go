package resource

import "fmt"

// edge reads one item of the edges (RFC 20, "Graph Edges").
func (r *reader) edge() (Edge, error) {
	e := Edge{Source: -1, Target: -1}
	metadata := 0
	more, err := r.enter('{', '}', "an object")
	for more && err == nil {
		if err = r.edgeField(&e, &metadata); err == nil {
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
	case e.Subsystem == "":
		e.Subsystem = Containment
	}
	return e, nil
}

func (r *reader) edgeField(e *Edge, metadata *int) error {
	key, err := r.key()
	if err != nil {
		return err
	}
	switch string(key) {
	case "source":
		return in("source", r.vertexNumber(&e.Source))
	case "target":
		return in("target", r.vertexNumber(&e.Target))
	case "metadata":
		return once(metadata, "metadata", func() error { return r.edgeMetadata(e) })
	}
	return r.skip()
}

func (r *reader) edgeMetadata(e *Edge) error {
	return r.object(func(key []byte) error {
		if string(key) != "subsystem" {
			return r.skip()
		}
		b, err := r.bytes()
		switch {
		case err != nil:
		case len(b) == 0:
			err = fmt.Errorf("is empty")
		case e.Subsystem != "":
			err = fmt.Errorf("appears twice")
		case string(b) == Containment:
			e.Subsystem = Containment
		default:
			e.Subsystem = r.keep(b)
		}
		return in("subsystem", err)
	})
}

// vertexNumber reads the id of a vertex, and sets *to to
// the index of the vertex. It fails if *to is set already.
func (r *reader) vertexNumber(to *int) error {
	id, err := r.bytes()
	if err != nil {
		return err
	}
	i, ok := r.ids.find(id)
	switch {
	case !ok:
		return fmt.Errorf("no vertex %q", id)
	case *to >= 0:
		return fmt.Errorf("appears twice")
	}
	*to = i
	return nil
}
