package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// deadlineGrace is for how long past its caller's deadline a call is taken to be at work: a library that
// looks at no deadline comes to its end all the same, but one that hangs is to be found.
const deadlineGrace = time.Minute

// calls are those of the engine that are under way, with the time until which each is taken to be
// at work, in the order in which they began.
type calls struct {
	mu    sync.Mutex
	begun uint64
	until map[uint64]time.Time
}

// begin takes note of a call, which has a deadline, until end is called.
func (c *calls) begin(ctx context.Context) (end func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return func() {} // it is refused
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

// atWork says whether the call that began first may be at work. If that hangs, those behind it do
// nothing, however many come.
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
