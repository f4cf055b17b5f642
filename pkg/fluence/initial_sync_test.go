package fluence

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2/ktesting"
)

// A kind that the API server fails to list, for a
// reason that may pass, keeps no pod waiting forever.
func TestWhatCannotBeListedIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ctx := ktesting.NewTestContext(t)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var complete atomic.Bool
		l := &initialSync{onDone: func() { complete.Store(true) }}
		never := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)
		whenListed(ctx, never, "pods", l.addSource())
		other := l.addSource()
		other()
		other() // marks the source as done twice
		time.Sleep(syncTimeout - time.Second)
		synctest.Wait()
		if complete.Load() || l.isDone() {
			t.Error("complete, though one kind was not listed")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !complete.Load() || !l.isDone() {
			t.Errorf("not complete after %v", syncTimeout)
		}
	})
}
