package fluxionpb

import (
	"errors"
	"fmt"
	"iter"

	"github.com/flux-k8s/fluence/pkg/resource"
)

// NodeMessages encodes graphs of nodes as the contents of a stream of messages. No graphs
// give one empty message. If a graph cannot be encoded, the stream ends with an error.
func NodeMessages(nodes []*resource.Graph) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		var (
			message [][]byte
			size    int
		)
		for i, g := range nodes {
			text, err := encodeNode(g)
			if err != nil {
				yield(nil, fieldError(fmt.Sprintf("graphs[%d]", i), "%w", err))
				return
			}
			if size > 0 && size+len(text) > chunk {
				if !yield(message, nil) {
					return
				}
				message, size = nil, 0
			}
			message, size = append(message, text), size+len(text)
		}
		yield(message, nil)
	}
}

func encodeNode(g *resource.Graph) ([]byte, error) {
	if g == nil {
		return nil, errors.New("missing")
	}
	text, err := g.JGF()
	if err != nil {
		return nil, err
	}
	return text, checkSize(len(text))
}

// A NodesReader joins the messages of NodeMessages.
type NodesReader struct {
	nodes []*resource.Graph
	spent budget
}

// Add reads the next message. It fails if a graph is invalid, with an error that
// names the field. It also fails once all messages together exceed MaxCall.
func (r *NodesReader) Add(graphs [][]byte) error {
	for _, text := range graphs {
		if err := r.spent.spend(len(text)); err != nil {
			return err
		}
		g, err := resource.ReadJGF(text)
		if err != nil {
			return fieldError(fmt.Sprintf("graphs[%d]", len(r.nodes)), "%w", err)
		}
		r.nodes = append(r.nodes, g)
	}
	return nil
}

// Nodes returns the nodes that were read.
func (r *NodesReader) Nodes() []*resource.Graph { return r.nodes }
