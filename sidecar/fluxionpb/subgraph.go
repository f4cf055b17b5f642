package fluxionpb

import (
	"errors"
	"fmt"
	"iter"
)

// SubgraphMessages encodes the text of a graph as a stream of messages.
// It fails for an empty text, and for one of more than MaxGraph bytes.
func SubgraphMessages(jgf []byte) iter.Seq2[*AddSubgraphRequest, error] {
	return func(yield func(*AddSubgraphRequest, error) bool) {
		size := uint64(len(jgf))
		if err := checkGraph(size); err != nil {
			yield(nil, err)
			return
		}
		m := &AddSubgraphRequest{Size: size}
		for len(jgf) > 0 {
			n := min(len(jgf), chunk)
			m.Jgf, jgf = jgf[:n], jgf[n:]
			if !yield(m, nil) {
				return
			}
			m = &AddSubgraphRequest{}
		}
	}
}

func checkGraph(size uint64) error {
	if size == 0 {
		return fieldError("jgf", "missing")
	}
	if size > MaxGraph {
		return fieldError("jgf", "%d bytes, a graph has at most %d", size, MaxGraph)
	}
	return nil
}

// A SubgraphReader joins the messages of SubgraphMessages. It allocates
// the whole text once, at the first message, which has its size.
type SubgraphReader struct {
	begun bool
	size  uint64
	text  []byte
}

// Add reads the next message. An error names the field and its value.
func (r *SubgraphReader) Add(m *AddSubgraphRequest) error {
	if !r.begun {
		if err := checkGraph(m.GetSize()); err != nil {
			return err
		}
		r.begun, r.size = true, m.GetSize()
		r.text = make([]byte, 0, r.size)
	} else if m.GetSize() != 0 {
		return fieldError("size", "%d: must be set in the first message only", m.GetSize())
	}
	if more := uint64(len(m.GetJgf())); uint64(len(r.text))+more > r.size {
		return fieldError("jgf", "more than the %d bytes that size says", r.size)
	}
	r.text = append(r.text, m.GetJgf()...)
	return nil
}

// Text returns the text that was read. It fails for a text that is not complete.
func (r *SubgraphReader) Text() ([]byte, error) {
	if !r.begun {
		return nil, errors.New("jgf: missing")
	}
	if have := uint64(len(r.text)); have < r.size {
		return nil, fmt.Errorf("jgf: ends after %d of %d bytes", have, r.size)
	}
	return r.text, nil
}
