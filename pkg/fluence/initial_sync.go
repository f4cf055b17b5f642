package fluence

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// syncTimeout is how long the plugin waits at its start for a list
// that keeps failing with a temporary error. After that, pods without
// a PodGroup are placed, and gangs still wait for their PodGroups.
const syncTimeout = 15 * time.Second

// initialSync is done when each watch that the plugin runs itself has finished
// its first list, cannot finish it (a CRD or a right is missing), or has taken
// longer than syncTimeout. Before that no group is placed: a half-bound group
// might look complete, and the room that it needs might look free.
type initialSync struct {
	// pending is the number of watches that are not done.
	pending atomic.Int32
	// onDone is called when the last watch is done.
	onDone func()
}

// addSource adds a watch to wait for. The returned function
// marks the watch as done, and may be called more than once.
func (l *initialSync) addSource() (listed func()) {
	l.pending.Add(1)
	return sync.OnceFunc(func() {
		if l.pending.Add(-1) == 0 {
			l.onDone()
		}
	})
}

func (l *initialSync) isDone() bool { return l.pending.Load() == 0 }

// registration reports whether an event handler has received all objects of
// the informer's first list. That is later than the informer's own HasSynced.
type registration interface {
	HasSyncedChecker() cache.DoneChecker
}

// whenListed calls listed when the handler has received the first
// list, or after syncTimeout. what names the list for the log.
func whenListed(ctx context.Context, handler registration, what string, listed func()) {
	go func() {
		timeout := time.NewTimer(syncTimeout)
		defer timeout.Stop()
		select {
		case <-handler.HasSyncedChecker().Done():
		case <-timeout.C:
			klog.FromContext(ctx).Info("Objects were not listed in time; groups are placed without them", "resource", what, "after", syncTimeout)
		case <-ctx.Done():
			return
		}
		listed()
	}()
}
