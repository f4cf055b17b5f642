package fluence

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestWakerGathersWhatIsWantedWhileItWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken []wanted
		hold := make(chan struct{})
		w := newWaker(func(_ context.Context, w wanted) time.Time {
			woken = append(woken, w)
			<-hold
			return time.Time{}
		})
		go w.run(t.Context())
		w.one(types.NamespacedName{Name: "first"})
		synctest.Wait()
		for range 100 {
			w.one(types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"})
			w.pods([]*corev1.Pod{aPod("p"), aPod("q")})
			w.lost("p", 7)
			w.all()
		}
		close(hold)
		synctest.Wait()
		var full []wanted
		for _, w := range woken {
			if w.all {
				full = append(full, w)
			}
		}
		if len(full) != 1 {
			t.Fatalf("woken %d times for what came meanwhile, want once", len(full))
		}
		got := full[0]
		delete(got.groups, types.NamespacedName{Name: "first"})
		if !got.all || len(got.groups) != 2 || len(got.lost) != 1 || got.lost["p"] != 7 ||
			!slices.Equal(slices.Sorted(maps.Keys(got.pods)), []string{"p", "q"}) {
			t.Errorf("wanted = %+v, want everything, once", got)
		}
	})
}

// Whoever wakes may want more: the queue calls PreEnqueue.
func TestWakerIsFreeWhileItWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := 0
		var w *waker
		w = newWaker(func(_ context.Context, want wanted) time.Time {
			woken++
			if len(want.groups) > 0 {
				w.all()
			}
			return time.Time{}
		})
		go w.run(t.Context())
		w.one(g)
		synctest.Wait()
		if woken < 2 {
			t.Errorf("woken %d times, want for the group and for all", woken)
		}
	})
}

func TestWakerWakesAgainWhenToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		w := newWaker(func(context.Context, wanted) time.Time {
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
