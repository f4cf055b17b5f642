package server

import (
	"context"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errPanicked is the error that the caller gets. The panic itself
// is only logged, because its text may contain data of other users.
var errPanicked = status.Error(codes.Internal, "internal error in the matcher: see the log of the sidecar for the panic")

// recoverPanic must be deferred. If Panicked is set, it recovers a panic and sets err. Otherwise
// the panic goes on.
func (o *Options) recoverPanic(ctx context.Context, method string, err *error) {
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

func recoverUnary(o *Options) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (out any, err error) {
		defer o.recoverPanic(ctx, info.FullMethod, &err)
		return handle(ctx, in)
	}
}

func recoverStream(o *Options) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
		defer o.recoverPanic(stream.Context(), info.FullMethod, &err)
		return handle(srv, stream)
	}
}
