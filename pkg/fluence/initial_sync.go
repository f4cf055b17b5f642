package fluence

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// syncTimeout is how long is waited for what cannot be listed for a reason that may
// pass. Gangs go on waiting for their PodGroups then; pods that need none do not.
const syncTimeout = 15 * time.Second

// A listing says when all that the plugin watches by itself has been listed for the
// first time, or is known not to be had, for want of a CRD or of a right, or has been
// waited for long enough. Before that a group that was left half bound may look
// whole, and the room that it lacks free.
type initialSync struct {
	pending atomic.Int32
	onDone  func()
}

// addSource returns a function by which one more watch says that it is that far, once
// or more often.
func (l *initialSync) addSource() (listed func()) {
	l.pending.Add(1)
	return sync.OnceFunc(func() {
		if l.pending.Add(-1) == 0 {
			l.onDone()
		}
	})
}

func (l *initialSync) isDone() bool { return l.pending.Load() == 0 }

// A registration says whether a watcher has been told of all objects that an informer listed. The
// informer itself knows them a while earlier.
type registration interface {
	HasSyncedChecker() cache.DoneChecker
}

// whenListed calls listed when a watcher has been told of all that there was, or after
// syncTimeout.
func whenListed(ctx context.Context, told registration, what string, listed func()) {
	go func() {
		patience := time.NewTimer(syncTimeout)
		defer patience.Stop()
		select {
		case <-told.HasSyncedChecker().Done():
		case <-patience.C:
			klog.FromContext(ctx).Info("Groups are placed before all that they need could be listed", "missing", what, "after", syncTimeout)
		case <-ctx.Done():
			return
		}
		listed()
	}()
}
