package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

// withDefaultTimeout returns a context that ends with ctx and has a deadline: the one of ctx or, if
// ctx has none, timeout from now.
func withDefaultTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// callError decodes the error of a call. ctx is the context of the caller. For nil it returns nil.
func callError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	if s.Code() == codes.Canceled && !errors.Is(ctx.Err(), context.Canceled) {
		// The connection was closed, or the server cancelled the call: there is no answer.
		return fmt.Errorf("%w: %s", match.ErrUnavailable, s.Message())
	}
	return fluxionpb.FromStatus(s)
}

// invalid returns the error for arguments that cannot be sent.
func invalid(err error) error { return fmt.Errorf("%w: %w", match.ErrInvalid, err) }

// drain reads a stream to its end, message by message.
func drain[M any](ctx context.Context, recv func() (M, error), add func(M) error) error {
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return callError(ctx, err)
		}
		if err := add(m); err != nil {
			return fmt.Errorf("read the matcher's answer: %w", err)
		}
	}
}
