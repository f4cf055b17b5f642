package fluence

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/test/objects"
)

func TestActivatorCollectsRequestsDuringActivation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken []activationRequests
		hold := make(chan struct{})
		w := newActivator(func(_ context.Context, w activationRequests) time.Time {
			woken = append(woken, w)
			<-hold
			return time.Time{}
		})
		go w.run(t.Context())
		w.activateGroups(types.NamespacedName{Name: "first"})
		synctest.Wait()
		for range 100 {
			w.activateGroups(types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"})
			w.activatePods([]*corev1.Pod{objects.Pod("p"), objects.Pod("q")})
			w.revokeAbandoned("p", 7)
			w.activateAll()
		}
		close(hold)
		synctest.Wait()
		var full []activationRequests
		for _, w := range woken {
			if w.allGroups {
				full = append(full, w)
			}
		}
		if len(full) != 1 {
			t.Fatalf("woken %d times for what came meanwhile, want once", len(full))
		}
		got := full[0]
		delete(got.groups, types.NamespacedName{Name: "first"})
		if !got.allGroups || len(got.groups) != 2 || len(got.abandoned) != 1 || got.abandoned["p"] != 7 ||
			!slices.Equal(slices.Sorted(maps.Keys(got.pods)), []string{"p", "q"}) {
			t.Errorf("wanted = %+v, want everything, once", got)
		}
	})
}

// A call of activate may request more, because the queue calls PreEnqueue.
func TestActivatorAcceptsRequestsDuringActivation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := 0
		var w *activator
		w = newActivator(func(_ context.Context, want activationRequests) time.Time {
			woken++
			if len(want.groups) > 0 {
				w.activateAll()
			}
			return time.Time{}
		})
		go w.run(t.Context())
		w.activateGroups(g)
		synctest.Wait()
		if woken < 2 {
			t.Errorf("woken %d times, want for the group and for all", woken)
		}
	})
}

func TestActivatorRunsAgainAtTheReturnedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		w := newActivator(func(context.Context, activationRequests) time.Time {
			at = append(at, time.Since(start))
			if len(at) < 3 {
				return time.Now().Add(time.Minute)
			}
			return time.Time{}
		})
		go w.run(t.Context())
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []time.Duration{0, time.Minute, 2 * time.Minute}; !slices.Equal(at, want) {
			t.Errorf("woken at %v, want %v", at, want)
		}
	})
}

// A group that a killed scheduler left half bound is not placed before
// its state is known. Its missing pods then come first in the queue.
func TestReplacementsAreActivatedFirst(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		listed := r.pl.initialSync.addSource()
		r.node("n", 8)
		r.podGroupAPI.put(aPodGroup(g.Name, 2, "pg"))
		r.pod("g-0", objects.InGroup(g.Name), objects.OnNode("n"))
		late := r.pod("g-1", objects.InGroup(g.Name))
		for _, name := range []string{"a", "b", "c"} {
			r.pod(name)
		}
		r.pass(time.Second)
		r.wantHeld(late, whyListing)
		handle := &activations{Handle: r.pl.handle}
		r.pl.handle = handle
		defer func() { r.pl.handle = handle.Handle }()
		listed()
		r.pass(0)
		want := [][]string{{"g-1"}, {"a", "b", "c"}}
		if !slices.EqualFunc(handle.batches, want, slices.Equal) {
			t.Errorf("pods were put into the queue as %v, want %v", handle.batches, want)
		}
		r.wantPasses(late)
	})
}

// activations records which pods are activated.
type activations struct {
	fwk.Handle
	batches [][]string
}

func (a *activations) Activate(logger klog.Logger, pods map[string]*corev1.Pod) {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	a.batches = append(a.batches, names)
	a.Handle.Activate(logger, pods)
}

// What was requested before flush is activated when flush returns, even
// if another call of activate is under way. The goroutine keeps its time.
func TestFlushReturnsAfterAllThatWasRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var activated []types.NamespacedName
		calls, again, hold := 0, time.Now().Add(time.Minute), make(chan struct{})
		w := newActivator(func(_ context.Context, want activationRequests) time.Time {
			mu.Lock()
			calls++
			first := calls == 1
			mu.Unlock()
			if first {
				<-hold
			}
			mu.Lock()
			activated = slices.AppendSeq(activated, maps.Keys(want.groups))
			mu.Unlock()
			if !time.Now().Before(again) {
				return time.Time{}
			}
			return again
		})
		called := func() int {
			mu.Lock()
			defer mu.Unlock()
			return calls
		}
		w.activateGroups(g)
		go w.run(t.Context())
		synctest.Wait()
		flushing, flushed := make(chan struct{}), make(chan []types.NamespacedName, 1)
		go func() {
			close(flushing)
			w.flush(t.Context())
			mu.Lock()
			defer mu.Unlock()
			flushed <- slices.Clone(activated)
		}()
		<-flushing
		for range 1000 {
			runtime.Gosched() // flush waits for a lock, for which synctest.Wait would wait too
		}
		close(hold)
		if got := <-flushed; !slices.Equal(got, []types.NamespacedName{g}) {
			t.Errorf("when flush returned, %v were activated, want %v", got, g)
		}
		synctest.Wait()
		before := called()
		w.flush(t.Context())
		if called() != before {
			t.Error("flush calls activate, though nothing was requested")
		}
		time.Sleep(time.Until(again))
		synctest.Wait()
		if called() == before {
			t.Error("activate is not called again at the time that it returned")
		}
	})
}
