package server

import (
	"context"
	"errors"

	grpchealth "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/flux-k8s/fluence/pkg/match"
)

// health is the standard service, which does not know whether the engine takes calls.
type health struct {
	*grpchealth.Server
	engine match.Engine
}

// Check implements healthpb.HealthServer.
func (h *health) Check(ctx context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	answer, err := h.Server.Check(ctx, r)
	if err != nil || answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return answer, err
	}
	// No graph has the epoch 0: this changes nothing, and is answered when the engine is free.
	if err := h.engine.Release(ctx, 0, 0); err != nil && !errors.Is(err, match.ErrStale) {
		return nil, err
	}
	return answer, nil
}
