package resource

import "fmt"

// A node is a vertex in the text. It has an id, to which
// the edges refer, and the keys that only a Set has.
type node struct {
	id []byte
	Vertex
	extra extra
}

// node reads one item of the nodes of a graph (RFC 4; RFC 20, "Graph Vertices").
func (r *reader) node(n *node) error {
	*n = node{}
	metadata := -1
	more, err := r.enter('{', '}', "an object")
	for more && err == nil {
		if err = r.nodeField(n, &metadata); err == nil {
			more, err = r.next('}')
		}
	}
	switch {
	case err != nil:
		return err
	case n.id == nil:
		return fmt.Errorf("no id")
	case metadata < 0:
		return n.within(fmt.Errorf("no metadata"))
	case metadata == already:
		return nil
	}
	end := r.pos
	r.pos = metadata
	err = n.within(r.metadata(n))
	r.pos = end
	return err
}

// within adds the id of the vertex to an error.
func (n *node) within(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("vertex %q: %w", n.id, err)
}

// already is the position of metadata that have been read. No metadata can be at position 0.
const already = 0

// nodeField reads one key of a vertex's item. If the id is not known yet, it
// only records the position of the metadata, because errors in them name the id.
func (r *reader) nodeField(n *node, metadata *int) error {
	key, err := r.key()
	if err != nil {
		return err
	}
	switch string(key) {
	case "id":
		if n.id != nil {
			return fmt.Errorf("id appears twice")
		}
		n.id, err = r.bytes()
		return in("id", err)
	case "metadata":
		if *metadata >= 0 {
			return fmt.Errorf("metadata appears twice")
		}
		r.peek()
		*metadata = r.pos
		if n.id != nil {
			*metadata = already
			return n.within(r.metadata(n))
		}
	}
	return r.skip()
}
