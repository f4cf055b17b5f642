package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

// isEngineMethod reports whether a method belongs to the engine's service.
// The health service requires no deadline and has its own errors.
func isEngineMethod(method string) bool {
	return strings.HasPrefix(method, "/"+fluxionpb.Fluxion_ServiceDesc.ServiceName+"/")
}

// requireDeadline rejects a call without a deadline. Such a caller would wait for ever,
// and its stream would stay open for as long. gRPC itself ends calls at their deadline.
func requireDeadline(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		return invalid(errors.New("the call has no deadline"))
	}
	return nil
}

// invalid returns the error for invalid arguments.
func invalid(err error) error { return fmt.Errorf("%w: %w", match.ErrInvalid, err) }

// encodeErrorsUnary encodes the errors of unary calls.
func encodeErrorsUnary(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if !isEngineMethod(info.FullMethod) {
		return handle(ctx, in)
	}
	if err := requireDeadline(ctx); err != nil {
		return nil, toStatus(err)
	}
	out, err := handle(ctx, in)
	return out, toStatus(err)
}

// encodeErrorsStream encodes the errors of streams.
func encodeErrorsStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if !isEngineMethod(info.FullMethod) {
		return handle(srv, stream)
	}
	if err := requireDeadline(stream.Context()); err != nil {
		return toStatus(err)
	}
	return toStatus(handle(srv, stream))
}

// toStatus encodes an error. An error that is a gRPC status already is returned as it is.
func toStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return fluxionpb.ToStatus(err).Err()
}

// watchUntilStop ends health watches when the server
// stops. Otherwise the server would wait for them.
func (s *Server) watchUntilStop(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if info.FullMethod != healthpb.Health_Watch_FullMethodName {
		return handle(srv, stream)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	return handle(srv, &boundStream{ServerStream: stream, ctx: ctx})
}

// A boundStream is a stream that ends with another context.
type boundStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (b *boundStream) Context() context.Context { return b.ctx }

func logUnary(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		start := time.Now()
		out, err := handle(ctx, in)
		logCall(ctx, log, info.FullMethod, start, err)
		return out, err
	}
}

func logStream(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		start := time.Now()
		err := handle(srv, stream)
		logCall(stream.Context(), log, info.FullMethod, start, err)
		return err
	}
}

func logCall(ctx context.Context, log *slog.Logger, method string, start time.Time, err error) {
	s := status.Convert(err)
	log.DebugContext(ctx, "Answered a call", "method", method, "code", s.Code(), "message", s.Message(), "duration", time.Since(start))
}
