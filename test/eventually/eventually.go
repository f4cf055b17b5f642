// Package eventually waits in tests until something is so.
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
	// often is the time from one look to the next.
	often = 50 * time.Millisecond
)

// True calls done until it returns true. The text says how far it is: if the deadline of ctx comes
// first, the test ends with what was waited for, and with the last text.
func True(ctx context.Context, t testing.TB, what string, done func(ctx context.Context) (bool, string)) {
	t.Helper()
	TrueEvery(ctx, t, often, what, done)
}

// TrueEvery is True with another interval: a short one sees what soon passes, and a long one spares
// the machine.
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
		// What the deadline interrupts says less than what came before.
		if ctx.Err() == nil || last == "" {
			last = text
		}
		return ok, nil
	})
	if err != nil {
		t.Fatalf("waited %s in vain for: %s; last: %s", time.Since(start).Round(time.Millisecond), what, last)
	}
}
