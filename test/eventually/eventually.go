// Package eventually waits, in tests, until a condition is true.
package eventually

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// patience bounds a wait whose context has no deadline.
	patience = 2 * time.Minute
	// often is the interval between two calls of the condition.
	often = 50 * time.Millisecond
)

// True calls done until it returns true. The text that done returns is the present state. If the
// deadline of ctx comes first, True ends the test and prints what and the last state.
func True(ctx context.Context, t testing.TB, what string, done func(ctx context.Context) (bool, string)) {
	t.Helper()
	TrueEvery(ctx, t, often, what, done)
}

// TrueEvery is True with another interval. A short interval sees a state that does not last, and a
// long one saves processor time.
func TrueEvery(ctx context.Context, t testing.TB, every time.Duration, what string, done func(ctx context.Context) (bool, string)) {
	t.Helper()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	var last string
	start := time.Now()
	err := wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		ok, text := done(ctx)
		// The state of a call that the deadline interrupts is of no use.
		if ctx.Err() == nil || last == "" {
			last = text
		}
		return ok, nil
	})
	if err != nil {
		t.Fatalf("%s: not so after %s; last: %s", what, time.Since(start).Round(time.Millisecond), last)
	}
}
