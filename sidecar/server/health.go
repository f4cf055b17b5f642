package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/flux-k8s/fluence/pkg/match"
)

// occupiedAfter is the time for which a check waits for the engine before it answers UNKNOWN.
const occupiedAfter = 250 * time.Millisecond

// errLoadHangs is the answer to a check if the engine does not come to the end of a load.
var errLoadHangs = status.Error(codes.DeadlineExceeded, "the engine has been loading its graph for longer than it should take")

// health is gRPC's standard health service, extended by a probe of the engine.
type health struct {
	*grpchealth.Server
	engine       match.Engine
	loading      func() (loading, overdue bool)
	calls        *calls
	recoverPanic func(ctx context.Context, method string, err *error)

	mu sync.Mutex
	// current is the probe in progress. It is nil if there is none.
	current *probe
}

// A probe is a call that changes nothing. It ends when the engine is free.
type probe struct {
	done chan struct{}
	err  error
	// loading is true if the engine takes calls, but no matches until its graph is loaded.
	loading bool
}

// Check implements healthpb.HealthServer. It answers SERVING if the engine
// accepts calls, and UNKNOWN while the engine loads its graph or works on another
// call that is not overdue. If the engine hangs, there is no answer until ctx ends.
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
	switch {
	case t.err != nil:
		return nil, t.err
	case t.loading:
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_UNKNOWN}, nil
	}
	return answer, nil
}

// probe returns the probe in progress, or starts one. So a hanging engine blocks one goroutine, not
// one for each check.
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
		defer h.recoverPanic(context.Background(), healthpb.Health_Check_FullMethodName, &t.err)
		// No graph has the epoch 0. So this changes
		// nothing, and is answered when the engine is free.
		if err := h.engine.Release(context.Background(), 0, 0); err != nil && !errors.Is(err, match.ErrStale) {
			t.err = err
			return
		}
		overdue := false
		if t.loading, overdue = h.loading(); overdue {
			t.err = errLoadHangs
		}
	}()
	return t
}
