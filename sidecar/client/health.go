package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

const (
	// probeTimeout bounds a Ping whose context has no deadline.
	probeTimeout = 500 * time.Millisecond
	// rewatchFirst and rewatchMax bound the time from the end of one watch to the
	// next, for a server that is reached and ends them.
	rewatchFirst = 20 * time.Millisecond
	rewatchMax   = 320 * time.Millisecond
)

// ErrOccupied is that the sidecar answers, and that its engine is at work for another call, whose
// time is not over.
var ErrOccupied = errors.New("the matcher is at work for another call")

// Ping returns nil if the sidecar answers that it serves, ErrOccupied if it is at work for another
// call, and match.ErrUnavailable if there is no answer by the deadline of ctx, or within half a
// second without one. It is the way to find a process that is stopped: its connection stays open,
// so that Watch hears nothing.
func (c *Client) Ping(ctx context.Context) error {
	call, cancel := bounded(ctx, probeTimeout)
	defer cancel()
	m, err := c.health.Check(call, &healthpb.HealthCheckRequest{Service: fluxionpb.Fluxion_ServiceDesc.ServiceName})
	if err != nil {
		return fail(ctx, err)
	}
	if m.GetStatus() == healthpb.HealthCheckResponse_UNKNOWN {
		return ErrOccupied
	}
	if m.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("%w: it says %s", match.ErrUnavailable, m.GetStatus())
	}
	return nil
}

// Watch calls changed with false, then at every change with what the sidecar says
// of itself: true while it serves, false when it stops or the connection breaks.
// It watches until ctx ends. The calls come one after another.
func (c *Client) Watch(ctx context.Context, changed func(serving bool)) {
	changed(false)
	last := false
	tell := func(serving bool) {
		if serving != last {
			last = serving
			changed(serving)
		}
	}
	for wait := rewatchFirst; ctx.Err() == nil; wait = min(2*wait, rewatchMax) {
		if c.watch(ctx, tell) {
			wait = rewatchFirst
		}
		tell(false)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// watch waits for a connection and tells what one watch says until it ends. It
// returns whether that was anything.
func (c *Client) watch(ctx context.Context, tell func(serving bool)) (heard bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.health.Watch(ctx,
		&healthpb.HealthCheckRequest{Service: fluxionpb.Fluxion_ServiceDesc.ServiceName}, grpc.WaitForReady(true))
	if err != nil {
		return false
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return heard
		}
		heard = true
		tell(m.GetStatus() == healthpb.HealthCheckResponse_SERVING)
	}
}
