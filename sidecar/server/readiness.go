package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/flux-k8s/fluence/pkg/match"
)

// A readinessLog logs why the engine does not become ready, or could not load the latest graph: once
// for each new reason, because a scheduler calls Ready again and again.
type readinessLog struct {
	log *slog.Logger

	mu sync.Mutex
	// last is the reason that was logged last. It is empty while Ready succeeds.
	last string
}

// observe records the result of a Ready. Errors that are no failures of the engine are left out: the
// caller named another epoch, gave up, or has to wait while the graph is loaded.
func (r *readinessLog) observe(ctx context.Context, err error) {
	for _, known := range []error{match.ErrStale, match.ErrUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return
		}
	}
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	r.mu.Lock()
	isNew := reason != r.last
	r.last = reason
	r.mu.Unlock()
	if isNew && err != nil {
		r.log.WarnContext(ctx, "The engine cannot load its graph", "reason", reason)
	}
}
