package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// deadlineGrace is the time after its deadline for which a call still counts as working. Fluxion's
// library ignores deadlines, but returns in the end. A call that hangs for longer must be detected.
const deadlineGrace = time.Minute

// calls are the engine's calls in progress, numbered in the order in which they began.
type calls struct {
	mu    sync.Mutex
	begun uint64
	// until is the time up to which each call counts as working, by the number of the call.
	until map[uint64]time.Time
}

// begin records a call, which has a deadline, until end is called.
func (c *calls) begin(ctx context.Context) (end func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return func() {} // it is rejected
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until == nil {
		c.until = map[uint64]time.Time{}
	}
	c.begun++
	n := c.begun
	c.until[n] = deadline.Add(deadlineGrace)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.until, n)
	}
}

// atWork reports whether the oldest call still counts as working. If the
// oldest call hangs, younger calls wait behind it and prove nothing.
func (c *calls) atWork(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.begun + 1
	for n := range c.until {
		first = min(first, n)
	}
	return now.Before(c.until[first])
}

func (c *calls) unary(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if isEngineMethod(info.FullMethod) {
		defer c.begin(ctx)()
	}
	return handle(ctx, in)
}

func (c *calls) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if isEngineMethod(info.FullMethod) {
		defer c.begin(stream.Context())()
	}
	return handle(srv, stream)
}
