package server

import (
	"context"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errPanicked is what the caller is told. What panicked is in the log alone: it may speak of others.
var errPanicked = status.Error(codes.Internal, "a bug of the matcher, which has it in its log")

// rescue is deferred: it answers a call that panics, where the engine stands that.
func (o *Options) rescue(ctx context.Context, method string, err *error) {
	if o.Panicked == nil {
		return
	}
	p := recover()
	if p == nil {
		return
	}
	o.Log.ErrorContext(ctx, "A call panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	o.Panicked()
	*err = errPanicked
}

func rescueUnary(o *Options) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (out any, err error) {
		defer o.rescue(ctx, info.FullMethod, &err)
		return handle(ctx, in)
	}
}

func rescueStream(o *Options) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		defer o.rescue(stream.Context(), info.FullMethod, &err)
		return handle(srv, stream)
	}
}
