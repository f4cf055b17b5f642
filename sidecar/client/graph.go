package client

import (
	"context"
	"fmt"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

var _ match.GraphEngine = (*Client)(nil)

// AddSubgraph implements match.GraphEngine. A sidecar whose engine accepts no
// graphs answers match.ErrInvalid to AddSubgraph, RemoveSubgraph and Find. A text
// of more than fluxionpb.MaxGraph bytes is match.ErrInvalid, too, and is not sent.
func (c *Client) AddSubgraph(ctx context.Context, e match.Epoch, jgf []byte) error {
	call, cancel := withDefaultTimeout(ctx, c.options.LoadTimeout)
	defer cancel()
	stream, err := c.rpc.AddSubgraph(call)
	if err != nil {
		return callError(ctx, err)
	}
	return send(ctx, stream, fluxionpb.SubgraphMessages(jgf), func(m *fluxionpb.AddSubgraphRequest) *fluxionpb.AddSubgraphRequest {
		m.Epoch = uint64(e)
		return m
	})
}

// RemoveSubgraph implements match.GraphEngine.
func (c *Client) RemoveSubgraph(ctx context.Context, e match.Epoch, path string) error {
	if err := fluxionpb.CheckText("path", path); err != nil {
		return invalid(err)
	}
	call, cancel := withDefaultTimeout(ctx, c.options.Timeout)
	defer cancel()
	_, err := c.rpc.RemoveSubgraph(call, &fluxionpb.RemoveSubgraphRequest{Epoch: uint64(e), Path: path})
	return callError(ctx, err)
}

// Find implements match.GraphEngine.
func (c *Client) Find(ctx context.Context, e match.Epoch, criteria string, now time.Time) (*resource.Set, error) {
	m, err := fluxionpb.EncodeSearch(fluxionpb.Search{Epoch: e, Criteria: criteria, Now: now})
	if err != nil {
		return nil, invalid(err)
	}
	call, cancel := withDefaultTimeout(ctx, c.options.LoadTimeout)
	defer cancel()
	stream, err := c.rpc.Find(call, m)
	if err != nil {
		return nil, callError(ctx, err)
	}
	var found fluxionpb.FoundReader
	if err := drain(ctx, stream.Recv, found.Add); err != nil {
		return nil, err
	}
	s, err := found.Found()
	if err != nil {
		return nil, fmt.Errorf("read the matcher's answer: %w", err)
	}
	return s, nil
}
