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
	// minRewatchBackoff is the shortest time from the end of one watch to the next, if the server
	// can be reached but ends the watches.
	minRewatchBackoff = 20 * time.Millisecond
	// maxRewatchBackoff is the longest such time.
	maxRewatchBackoff = 320 * time.Millisecond
)

// ErrOccupied means that the sidecar answers, but its
// engine works on another call that is not overdue.
var ErrOccupied = errors.New("the matcher is busy with another call")

// Ping returns nil if the sidecar answers that it serves. It returns ErrOccupied if the engine
// works on another call. It returns match.ErrUnavailable if there is no answer by the deadline of
// ctx, or within half a second without one. Ping also notices a process that is stopped. Watch does
// not notice it, because the connection of such a process stays open.
func (c *Client) Ping(ctx context.Context) error {
	call, cancel := withDefaultTimeout(ctx, probeTimeout)
	defer cancel()
	m, err := c.health.Check(call, &healthpb.HealthCheckRequest{Service: fluxionpb.Fluxion_ServiceDesc.ServiceName})
	if err != nil {
		return callError(ctx, err)
	}
	if m.GetStatus() == healthpb.HealthCheckResponse_UNKNOWN {
		return ErrOccupied
	}
	if m.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("%w: the sidecar reports status %s", match.ErrUnavailable, m.GetStatus())
	}
	return nil
}

// Watch calls changed with false, and then at every change: with true
// while the sidecar serves, with false when it stops or the connection
// breaks. It watches until ctx ends. The calls come one after another.
func (c *Client) Watch(ctx context.Context, changed func(serving bool)) {
	changed(false)
	last := false
	tell := func(serving bool) {
		if serving != last {
			last = serving
			changed(serving)
		}
	}
	for wait := minRewatchBackoff; ctx.Err() == nil; wait = min(2*wait, maxRewatchBackoff) {
		if c.watch(ctx, tell) {
			wait = minRewatchBackoff
		}
		tell(false)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// watch waits for a connection and passes on what one watch reports
// until it ends. It returns whether the watch has reported anything.
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
