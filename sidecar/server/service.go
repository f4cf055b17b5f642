package server

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

// A service decodes a call, passes it to the engine and encodes the answer.
// It returns the errors of the engine, which the interceptors encode.
type service struct {
	fluxionpb.UnimplementedFluxionServer
	engine match.Engine
	// metrics returns the metrics of the process. It may be nil.
	metrics func() ([]byte, error)
	// gathering has an element while metrics runs.
	gathering chan struct{}
	readiness readinessLog
}

func (s *service) Match(m *fluxionpb.MatchRequest, out grpc.ServerStreamingServer[fluxionpb.MatchResponse]) error {
	r, err := fluxionpb.DecodeRequest(m)
	if err != nil {
		return invalid(err)
	}
	a, err := s.engine.Match(out.Context(), r)
	if err != nil {
		return err
	}
	for m, err := range fluxionpb.AllocationMessages(a) {
		if err != nil {
			return err
		}
		if err := out.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) Release(ctx context.Context, m *fluxionpb.ReleaseRequest) (*fluxionpb.ReleaseResponse, error) {
	err := s.engine.Release(ctx, match.Epoch(m.GetEpoch()), match.JobID(m.GetId()), m.GetKeys()...)
	return &fluxionpb.ReleaseResponse{}, err
}

func (s *service) Update(in grpc.ClientStreamingServer[fluxionpb.UpdateRequest, fluxionpb.UpdateResponse]) error {
	var jobs fluxionpb.JobsReader
	epoch, err := collect(in.Recv, func(m *fluxionpb.UpdateRequest) error { return jobs.Add(m.GetJobs()) })
	if err != nil {
		return err
	}
	if err := s.engine.Update(in.Context(), epoch, jobs.Jobs()...); err != nil {
		return err
	}
	return in.SendAndClose(&fluxionpb.UpdateResponse{})
}

func (s *service) PutNode(in grpc.ClientStreamingServer[fluxionpb.PutNodeRequest, fluxionpb.PutNodeResponse]) error {
	var nodes fluxionpb.NodesReader
	epoch, err := collect(in.Recv, func(m *fluxionpb.PutNodeRequest) error { return nodes.Add(m.GetGraphs()) })
	if err != nil {
		return err
	}
	if err := s.engine.PutNode(in.Context(), epoch, nodes.Nodes()...); err != nil {
		return err
	}
	return in.SendAndClose(&fluxionpb.PutNodeResponse{})
}

// collect reads a stream to its end, and returns the epoch of its
// messages, which must all have the same. Nothing is done before the last
// message is read, so that a call with an invalid message changes nothing.
func collect[M interface{ GetEpoch() uint64 }](recv func() (M, error), add func(M) error) (match.Epoch, error) {
	var epoch uint64
	for n := 0; ; n++ {
		m, err := recv()
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			return 0, invalid(errors.New("the stream has no message"))
		case errors.Is(err, io.EOF):
			return match.Epoch(epoch), nil
		case err != nil:
			return 0, err
		case n > 0 && m.GetEpoch() != epoch:
			return 0, invalid(errors.New("epoch: must be the same in every message"))
		}
		epoch = m.GetEpoch()
		if err := add(m); err != nil {
			return 0, invalid(err)
		}
	}
}

func (s *service) RemoveNode(ctx context.Context, m *fluxionpb.RemoveNodeRequest) (*fluxionpb.RemoveNodeResponse, error) {
	err := s.engine.RemoveNode(ctx, match.Epoch(m.GetEpoch()), m.GetName())
	return &fluxionpb.RemoveNodeResponse{}, err
}

func (s *service) SetStatus(ctx context.Context, m *fluxionpb.SetStatusRequest) (*fluxionpb.SetStatusResponse, error) {
	to, err := fluxionpb.DecodeStatus(m.GetStatus())
	if err != nil {
		return nil, invalid(err)
	}
	err = s.engine.SetStatus(ctx, match.Epoch(m.GetEpoch()), m.GetName(), to)
	return &fluxionpb.SetStatusResponse{}, err
}

func (s *service) Jobs(m *fluxionpb.JobsRequest, out grpc.ServerStreamingServer[fluxionpb.JobsResponse]) error {
	jobs, err := s.engine.Jobs(out.Context(), match.Epoch(m.GetEpoch()))
	if err != nil {
		return err
	}
	for message, err := range fluxionpb.JobMessages(jobs) {
		if err != nil {
			return err
		}
		if err := out.Send(&fluxionpb.JobsResponse{Jobs: message}); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) Nodes(m *fluxionpb.NodesRequest, out grpc.ServerStreamingServer[fluxionpb.NodesResponse]) error {
	nodes, err := s.engine.Nodes(out.Context(), match.Epoch(m.GetEpoch()), m.GetFrom(), int(m.GetLimit()))
	if err != nil {
		return err
	}
	for message, err := range fluxionpb.ListingMessages(nodes) {
		if err != nil {
			return err
		}
		if err := out.Send(&fluxionpb.NodesResponse{Nodes: message}); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) Reset(ctx context.Context, _ *fluxionpb.ResetRequest) (*fluxionpb.ResetResponse, error) {
	epoch, err := s.engine.Reset(ctx)
	return &fluxionpb.ResetResponse{Epoch: uint64(epoch)}, err
}

func (s *service) Ready(ctx context.Context, m *fluxionpb.ReadyRequest) (*fluxionpb.ReadyResponse, error) {
	err := s.engine.Ready(ctx, match.Epoch(m.GetEpoch()))
	s.readiness.observe(ctx, err)
	return &fluxionpb.ReadyResponse{}, err
}

// Metrics returns the metrics of the process. Only one gathering runs at a time, and others wait
// until their deadline. So a hanging engine blocks one goroutine, not one for each request.
func (s *service) Metrics(ctx context.Context, _ *fluxionpb.MetricsRequest) (*fluxionpb.MetricsResponse, error) {
	if s.metrics == nil {
		return nil, status.Error(codes.Unimplemented, "this sidecar has no metrics")
	}
	select {
	case s.gathering <- struct{}{}:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	defer func() { <-s.gathering }()
	text, err := s.metrics()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if len(text) > fluxionpb.MaxMetrics {
		return nil, status.Errorf(codes.Internal, "metrics: %d bytes, at most %d are allowed", len(text), fluxionpb.MaxMetrics)
	}
	return &fluxionpb.MetricsResponse{Text: text}, nil
}
