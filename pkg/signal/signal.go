// Package signal wakes a goroutine that waits for work: when it is
// signalled, or at a given time, whichever comes first.
package signal

import (
	"context"
	"time"
)

// Send wakes the reader of c, a channel with a buffer of one. It does
// nothing if a signal is pending already.
func Send(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Wait waits until wakeup is signalled or closed, or t is reached, and
// returns true. It returns false when ctx ends. A zero t means no deadline.
func Wait(ctx context.Context, wakeup <-chan struct{}, t time.Time) bool {
	var due <-chan time.Time
	if !t.IsZero() {
		left := time.Until(t)
		if left <= 0 {
			// No timer is made that is due already: the goroutine that reads its channel would run
			// it. All goroutines of a synctest bubble run such timers in one race context (runtime,
			// timer.unlockAndRun in Go 1.26), and the race detector crashes if two do so at once.
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
