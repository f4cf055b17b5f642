package fluxion

import "context"

// A lock lets one call at a time work on an engine. Unlike a sync.Mutex it goes to the callers in the
// order in which they came, so that one who yields it lets in all who wait, and who waits can give up.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

// try acquires the lock if it is free.
func (l lock) try() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

// acquire waits until the lock is free. It fails if ctx ends first.
func (l lock) acquire(ctx context.Context) error {
	if l.try() {
		return nil
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acquireAnyway waits for as long as it takes.
func (l lock) acquireAnyway() { l <- struct{}{} }

func (l lock) release() { <-l }

// yield lets in all who wait, and then acquires the lock again.
func (l lock) yield() {
	l.release()
	l.acquireAnyway()
}
