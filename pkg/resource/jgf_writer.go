package resource

import (
	"fmt"
	"io"
	"unicode/utf8"
)

// A JGFWriter writes a graph in the form that ReadJGF reads: first each vertex,
// then each edge. So a graph of any size takes only a buffer of 64 KiB. It
// checks each vertex and edge by itself alone; see Validate for the rest. After
// an error it writes nothing more, and returns the same error again.
type JGFWriter struct {
	w        io.Writer
	b        []byte
	vertices int
	edges    int
	share    Share
	err      error
}

// NewJGFWriter begins a graph on w.
func NewJGFWriter(w io.Writer) *JGFWriter {
	const buffer = 64 << 10
	return &JGFWriter{w: w, b: append(make([]byte, 0, buffer), `{"graph":{"nodes":[`...)}
}

// Vertex writes the next vertex. It fails after an edge, for a
// vertex that is invalid by itself, and if the io.Writer fails.
func (w *JGFWriter) Vertex(v *Vertex) error {
	err := v.check()
	if err == nil {
		err = v.checkTexts()
	}
	switch {
	case w.err != nil:
		return w.err
	case err != nil:
		return w.fail(fmt.Errorf("vertex %d: %w", w.vertices, err))
	case w.edges > 0:
		return w.fail(fmt.Errorf("vertex %d: comes after an edge", w.vertices))
	case w.vertices > 0:
		w.b = append(w.b, ',')
	}
	w.share = Share{Vertex: *v, Amount: v.Size, Exclusively: v.Exclusive}
	w.b = numberedInOrder(v.UniqID == int64(w.vertices)).appendNode(w.b, w.vertices, &w.share, extra{})
	w.vertices++
	return w.flush(false)
}

// Edge writes the next edge. Its ends are indexes into the order in
// which the vertices were written. It fails for an end that was not
// written, for an edge without a subsystem, and if the io.Writer fails.
func (w *JGFWriter) Edge(e Edge) error {
	switch {
	case w.err != nil:
		return w.err
	case min(e.Source, e.Target) < 0 || max(e.Source, e.Target) >= w.vertices:
		return w.fail(fmt.Errorf("edge %d: from vertex %d to %d, of %d", w.edges, e.Source, e.Target, w.vertices))
	case e.Subsystem == "" || !utf8.ValidString(e.Subsystem):
		return w.fail(fmt.Errorf("edge %d: %q is not a subsystem", w.edges, e.Subsystem))
	case w.edges > 0:
		w.b = append(w.b, ',')
	default:
		w.b = append(w.b, `],"edges":[`...)
	}
	w.b = numberedInOrder(true).appendEdge(w.b, e)
	w.edges++
	return w.flush(false)
}

// Close ends the graph. It does not close the io.Writer.
func (w *JGFWriter) Close() error {
	if w.err != nil {
		return w.err
	}
	if w.edges == 0 {
		w.b = append(w.b, `],"edges":[`...)
	}
	w.b = append(w.b, "]}}"...)
	return w.flush(true)
}

// numberedInOrder gives every vertex its index as its
// id. If the UniqID is the same, uniq_id is left out.
func numberedInOrder(same bool) vertexIDs {
	return vertexIDs{uniq: func(i int) int64 { return int64(i) }, unique: same}
}

// flush writes the buffer to the io.Writer if the buffer is nearly full, or if end is set.
func (w *JGFWriter) flush(end bool) error {
	const room = 4 << 10
	if !end && len(w.b) < cap(w.b)-room {
		return nil
	}
	if _, err := w.w.Write(w.b); err != nil {
		return w.fail(fmt.Errorf("write graph: %w", err))
	}
	w.b = w.b[:0]
	return nil
}

func (w *JGFWriter) fail(err error) error {
	w.err = err
	return err
}
