package server

import (
	"context"
	"errors"
	"sync"
	"time"

	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/flux-k8s/fluence/pkg/match"
)

// occupiedAfter is after how long a check is answered that the engine is at work for another call.
const occupiedAfter = 250 * time.Millisecond

// health is the standard service, which does not know whether the engine takes calls.
type health struct {
	*grpchealth.Server
	engine match.Engine
	calls  *calls
	rescue func(ctx context.Context, method string, err *error)

	mu sync.Mutex
	// current is the touch of the engine that has no end yet; nil if there is none.
	current *probe
}

// A touch is a call that changes nothing: it ends when the engine is free.
type probe struct {
	done chan struct{}
	err  error
}

// Check implements healthpb.HealthServer. It answers SERVING when the engine takes calls, and
// UNKNOWN while it does not, since it is at work for another call, whose time is not over. Otherwise
// there is no answer.
func (h *health) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	answer, err := h.Server.Check(ctx, r)
	if err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return answer, err
	}
	t := h.probe()
	wait := time.NewTimer(occupiedAfter)
	defer wait.Stop()
	select {
	case <-t.done:
	case <-wait.C:
		if h.calls.atWork(time.Now()) {
			return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_UNKNOWN}, nil
		}
		select {
		case <-t.done:
		case <-ctx.Done():
			return nil, toStatus(ctx.Err())
		}
	}
	if t.err != nil {
		return nil, t.err
	}
	return answer, nil
}

// probe returns the one that is under way, or begins one: of an engine that hangs no more than one
// check waits.
func (h *health) probe() *probe {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current != nil {
		return h.current
	}
	t := &probe{done: make(chan struct{})}
	h.current = t
	go func() {
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.current = nil
			close(t.done)
		}()
		defer h.rescue(context.Background(), healthpb.Health_Check_FullMethodName, &t.err)
		// No graph has the epoch 0: this changes nothing, and is answered when the engine is free.
		if err := h.engine.Release(context.Background(), 0, 0); err != nil && !errors.Is(err, match.ErrStale) {
			t.err = err
		}
	}()
	return t
}
