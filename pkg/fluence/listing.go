package fluence

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"
)

// A listing says when all that the plugin watches by itself has been listed for the
// first time, or is known not to be had, for want of a CRD or of a right. Before
// that a group that was left half bound may look whole, and the room that it lacks
// free.
type listing struct {
	left atomic.Int32
	done func()
}

// expect returns a function by which one more watch says that it is that far, once
// or more often.
func (l *listing) expect() (listed func()) {
	l.left.Add(1)
	return sync.OnceFunc(func() {
		if l.left.Add(-1) == 0 {
			l.done()
		}
	})
}

func (l *listing) complete() bool { return l.left.Load() == 0 }

// whenListed calls listed when an informer has told of all that there was.
func whenListed(ctx context.Context, informer cache.SharedIndexInformer, listed func()) {
	go func() {
		select {
		case <-informer.HasSyncedChecker().Done():
			listed()
		case <-ctx.Done():
		}
	}()
}
