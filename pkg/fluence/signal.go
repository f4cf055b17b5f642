package fluence

import (
	"context"
	"time"
)

// signal wakes the reader of a channel of one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// await waits for a signal of more or until t, whichever comes first; a zero t never comes. It
// returns false when ctx ends.
func await(ctx context.Context, more <-chan struct{}, t time.Time) bool {
	var due <-chan time.Time
	if !t.IsZero() {
		left := time.Until(t)
		if left <= 0 {
			// A timer that is due as it is made is run by the goroutine that reads it. All of a
			// synctest bubble run theirs in one race context (runtime, timer.unlockAndRun in Go
			// 1.26), and the race detector crashes where two do so at once.
			return ctx.Err() == nil
		}
		timer := time.NewTimer(left)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-more:
	case <-due:
	}
	return true
}
