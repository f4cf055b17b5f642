package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

// Match implements match.Engine.
func (c *Client) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	m, err := fluxionpb.EncodeRequest(r)
	if err != nil {
		return nil, invalid(err)
	}
	call, cancel := withDefaultTimeout(ctx, c.options.Timeout)
	defer cancel()
	stream, err := c.rpc.Match(call, m)
	if err != nil {
		return nil, callError(ctx, err)
	}
	answer := fluxionpb.AllocationReader{WithoutR: c.options.Brief}
	if err := drain(ctx, stream.Recv, answer.Add); err != nil {
		return nil, err
	}
	a, err := answer.Allocation()
	if err != nil {
		return nil, fmt.Errorf("read the matcher's answer: %w", err)
	}
	if c.options.Brief {
		for i := range a.Slots {
			c.shorten(&a.Slots[i])
		}
	}
	return a, nil
}

// shorten replaces R of a slot by its types and amounts, if they say the same to an
// Update: all vertices are pools below the slot's node, and none is held exclusively.
func (c *Client) shorten(s *match.Slot) {
	all := s.R.Vertices
	node := slices.IndexFunc(all, func(v resource.Share) bool { return v.Type == resource.TypeNode && v.Name == s.Node })
	if node < 0 {
		return
	}
	below := all[node].Path + "/"
	pools := make([]resource.Share, 0, len(all)-1)
	for i := range all {
		switch v := &all[i]; {
		case i == node:
		case v.Exclusively || !strings.HasPrefix(v.Path, below):
			return
		default:
			pools = append(pools, *v)
		}
	}
	end := s.R.Expiration
	if s.R = c.brief.Amounts(pools); !end.IsZero() {
		s.R = &resource.Set{Expiration: end, Vertices: s.R.Vertices} // sets without an end are shared
	}
}

// Release implements match.Engine.
func (c *Client) Release(ctx context.Context, e match.Epoch, id match.JobID, keys ...string) error {
	if err := fluxionpb.CheckText("keys", keys...); err != nil {
		return invalid(err)
	}
	call, cancel := withDefaultTimeout(ctx, c.options.Timeout)
	defer cancel()
	_, err := c.rpc.Release(call, &fluxionpb.ReleaseRequest{Epoch: uint64(e), Id: uint64(id), Keys: keys})
	return callError(ctx, err)
}

// Update implements match.Engine. Either all jobs take
// effect or none, however many messages they need.
func (c *Client) Update(ctx context.Context, e match.Epoch, jobs ...match.Job) error {
	call, cancel := withDefaultTimeout(ctx, c.options.LoadTimeout)
	defer cancel()
	stream, err := c.rpc.Update(call)
	if err != nil {
		return callError(ctx, err)
	}
	return send(ctx, stream, fluxionpb.JobMessages(jobs), func(jobs []*fluxionpb.Job) *fluxionpb.UpdateRequest {
		return &fluxionpb.UpdateRequest{Epoch: uint64(e), Jobs: jobs}
	})
}

// PutNode implements match.Engine. Either all nodes
// take effect or none, however many messages they need.
func (c *Client) PutNode(ctx context.Context, e match.Epoch, nodes ...*resource.Graph) error {
	call, cancel := withDefaultTimeout(ctx, c.options.LoadTimeout)
	defer cancel()
	stream, err := c.rpc.PutNode(call)
	if err != nil {
		return callError(ctx, err)
	}
	return send(ctx, stream, fluxionpb.NodeMessages(nodes), func(graphs [][]byte) *fluxionpb.PutNodeRequest {
		return &fluxionpb.PutNodeRequest{Epoch: uint64(e), Graphs: graphs}
	})
}

// send sends parts as messages of a stream, and waits for the answer to
// all of them. The server acts only at the end of a stream, so a stream
// that is abandoned because a part cannot be sent changes nothing.
func send[Part, M, Answer any](
	ctx context.Context, stream grpc.ClientStreamingClient[M, Answer], parts iter.Seq2[Part, error], message func(Part) *M,
) error {
	for part, err := range parts {
		if err != nil {
			return invalid(err)
		}
		err := stream.Send(message(part))
		if errors.Is(err, io.EOF) {
			break // The server has answered already. The next line reads the answer.
		}
		if err != nil {
			return callError(ctx, err)
		}
	}
	_, err := stream.CloseAndRecv()
	return callError(ctx, err)
}

// RemoveNode implements match.Engine.
func (c *Client) RemoveNode(ctx context.Context, e match.Epoch, name string) error {
	if err := fluxionpb.CheckText("name", name); err != nil {
		return invalid(err)
	}
	call, cancel := withDefaultTimeout(ctx, c.options.Timeout)
	defer cancel()
	_, err := c.rpc.RemoveNode(call, &fluxionpb.RemoveNodeRequest{Epoch: uint64(e), Name: name})
	return callError(ctx, err)
}

// SetStatus implements match.Engine.
func (c *Client) SetStatus(ctx context.Context, e match.Epoch, name string, s resource.Status) error {
	to, err := fluxionpb.EncodeStatus(s)
	if err == nil {
		err = fluxionpb.CheckText("name", name)
	}
	if err != nil {
		return invalid(err)
	}
	call, cancel := withDefaultTimeout(ctx, c.options.Timeout)
	defer cancel()
	_, err = c.rpc.SetStatus(call, &fluxionpb.SetStatusRequest{Epoch: uint64(e), Name: name, Status: to})
	return callError(ctx, err)
}

// Jobs implements match.Engine.
func (c *Client) Jobs(ctx context.Context, e match.Epoch) ([]match.Job, error) {
	call, cancel := withDefaultTimeout(ctx, c.options.LoadTimeout)
	defer cancel()
	stream, err := c.rpc.Jobs(call, &fluxionpb.JobsRequest{Epoch: uint64(e)})
	if err != nil {
		return nil, callError(ctx, err)
	}
	var jobs fluxionpb.JobsReader
	err = drain(ctx, stream.Recv, func(m *fluxionpb.JobsResponse) error { return jobs.Add(m.GetJobs()) })
	if err != nil {
		return nil, err
	}
	return jobs.Jobs(), nil
}

// Nodes implements match.Engine. A page shows one
// moment of the engine, however many messages it needs.
func (c *Client) Nodes(ctx context.Context, e match.Epoch, from string, limit int) ([]match.Node, error) {
	if err := fluxionpb.CheckText("from", from); err != nil {
		return nil, invalid(err)
	}
	if limit < 1 || limit > match.MaxNodesPerPage {
		return nil, invalid(fmt.Errorf("limit %d: must be from 1 to %d", limit, match.MaxNodesPerPage))
	}
	call, cancel := withDefaultTimeout(ctx, c.options.Timeout)
	defer cancel()
	stream, err := c.rpc.Nodes(call, &fluxionpb.NodesRequest{Epoch: uint64(e), From: from, Limit: int32(limit)})
	if err != nil {
		return nil, callError(ctx, err)
	}
	var nodes fluxionpb.ListingReader
	err = drain(ctx, stream.Recv, func(m *fluxionpb.NodesResponse) error { return nodes.Add(m.GetNodes()) })
	if err != nil {
		return nil, err
	}
	return nodes.Nodes(), nil
}

// Reset implements match.Engine.
func (c *Client) Reset(ctx context.Context) (match.Epoch, error) {
	call, cancel := withDefaultTimeout(ctx, c.options.Timeout)
	defer cancel()
	m, err := c.rpc.Reset(call, &fluxionpb.ResetRequest{})
	return match.Epoch(m.GetEpoch()), callError(ctx, err)
}

// Ready implements match.Engine.
func (c *Client) Ready(ctx context.Context, e match.Epoch) error {
	call, cancel := withDefaultTimeout(ctx, c.options.Timeout)
	defer cancel()
	_, err := c.rpc.Ready(call, &fluxionpb.ReadyRequest{Epoch: uint64(e)})
	return callError(ctx, err)
}
