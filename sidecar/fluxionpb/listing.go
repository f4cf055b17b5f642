package fluxionpb

import (
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// ListingMessages encodes listed nodes as the contents of a stream of messages. A
// node that is too large for one message is continued in the next. No nodes give
// one empty message. If a node cannot be encoded, the stream ends with an error.
func ListingMessages(nodes []match.Node) iter.Seq2[[]*Node, error] {
	return func(yield func([]*Node, error) bool) {
		var (
			message []*Node
			size    int
		)
		for i := range nodes {
			for part, err := range nodeParts(&nodes[i]) {
				if err != nil {
					yield(nil, fieldError(fmt.Sprintf("nodes[%d]", i), "%w", err))
					return
				}
				n := proto.Size(part)
				if len(message) > 0 && size+n > chunk {
					if !yield(message, nil) {
						return
					}
					message, size = nil, 0
				}
				message, size = append(message, part), size+n
			}
		}
		yield(message, nil)
	}
}

// nodeParts encodes a node in parts that each fit a message.
func nodeParts(n *match.Node) iter.Seq2[*Node, error] {
	return func(yield func(*Node, error) bool) {
		first, err := startNode(n)
		if err != nil {
			yield(nil, err)
			return
		}
		part := first
		for jobs, err := range JobMessages(n.Jobs) {
			if err != nil {
				yield(nil, err)
				return
			}
			part.Jobs = jobs
			if !yield(part, nil) {
				return
			}
			part = &Node{Continued: true}
		}
	}
}

// startNode encodes a node without its jobs.
func startNode(n *match.Node) (*Node, error) {
	if err := CheckText("name", n.Name); err != nil {
		return nil, err
	}
	m := &Node{Name: n.Name}
	if n.Graph == nil {
		return m, nil
	}
	var err error
	if m.Graph, err = encodeNode(n.Graph); err != nil {
		return nil, fieldError("graph", "%w", err)
	}
	return m, nil
}

// A ListingReader joins the messages of ListingMessages.
type ListingReader struct {
	nodes []match.Node
	jobs  JobsReader // the jobs of the last node
	spent budget
}

// Add reads the next message. It fails if a field is invalid, with an error that names
// the field and its value. It also fails once all messages together exceed MaxCall.
func (r *ListingReader) Add(nodes []*Node) error {
	for _, m := range nodes {
		if err := r.spent.spend(proto.Size(m)); err != nil {
			return err
		}
		if !m.GetContinued() {
			if err := r.begin(m); err != nil {
				return fieldError(fmt.Sprintf("nodes[%d]", len(r.nodes)), "%w", err)
			}
		} else if len(r.nodes) == 0 {
			return fieldError("nodes[0].continued", "there is no node before")
		}
		if err := r.jobs.Add(m.GetJobs()); err != nil {
			return fieldError(fmt.Sprintf("nodes[%d]", len(r.nodes)-1), "%w", err)
		}
		r.nodes[len(r.nodes)-1].Jobs = r.jobs.Jobs()
	}
	return nil
}

// begin reads the first part of a node, without its jobs.
func (r *ListingReader) begin(m *Node) error {
	var g *resource.Graph
	if len(m.GetGraph()) > 0 {
		var err error
		if g, err = resource.ReadJGF(m.GetGraph()); err != nil {
			return fieldError("graph", "%w", err)
		}
	}
	r.nodes = append(r.nodes, match.Node{Name: m.GetName(), Graph: g})
	r.jobs = JobsReader{}
	return nil
}

// Nodes returns the nodes that were read.
func (r *ListingReader) Nodes() []match.Node { return r.nodes }
