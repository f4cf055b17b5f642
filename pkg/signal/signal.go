// Package signal wakes goroutines that wait for something to do, at the latest at a time.
package signal

import (
	"context"
	"time"
)

// Send wakes the reader of a channel of one.
func Send(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Wait waits for a signal of more or until t, whichever comes first; a zero t never comes. It
// returns false when ctx ends.
func Wait(ctx context.Context, wakeup <-chan struct{}, t time.Time) bool {
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
	case <-wakeup:
	case <-due:
	}
	return true
}
