package podgroup

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-k8s/fluence/pkg/group"
)

// looksAt takes groups from a queue, as a worker does. The function
// that it returns returns the times at which each group was taken.
func looksAt(q queue) (looks func() map[string][]time.Duration) {
	start, times := time.Now(), map[string][]time.Duration{}
	go func() {
		for {
			req, shutdown := q.Get()
			if shutdown {
				return
			}
			times[req.Name] = append(times[req.Name], time.Since(start))
			q.Done(req)
		}
	}()
	return func() map[string][]time.Duration { synctest.Wait(); return times }
}

func TestWhenAGroupIsLookedAt(t *testing.T) {
	pod := pods(1)[0]
	changed := func(edits ...func(*corev1.Pod)) *corev1.Pod {
		p := pod.DeepCopy()
		for _, edit := range edits {
			edit(p)
		}
		return p
	}
	moved := changed(labelled(group.Label, "new"))
	created := func(p *corev1.Pod) event.CreateEvent { return event.CreateEvent{Object: p} }
	updated := func(p *corev1.Pod) event.UpdateEvent { return event.UpdateEvent{ObjectOld: pod, ObjectNew: p} }
	cases := map[string]struct {
		event any
		want  map[string]time.Duration
	}{
		"at once when a pod comes to a group without a PodGroup": {created(moved), map[string]time.Duration{"new": 0}},
		"a little later when it has one":                         {created(pod), map[string]time.Duration{"g": podEventDelay}},
		"a little later when a pod is bound":                     {updated(changed(bound)), map[string]time.Duration{"g": podEventDelay}},
		"a little later when it is leaving":                      {updated(changed(deleting)), map[string]time.Duration{"g": podEventDelay}},
		"a little later when it is gone":                         {event.DeleteEvent{Object: pod}, map[string]time.Duration{"g": podEventDelay}},
		"at once where a pod moves to, later where it was":       {updated(moved), map[string]time.Duration{"g": podEventDelay, "new": 0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := priorityqueue.New[ctrl.Request]("when")
				defer q.ShutDown()
				looks := looksAt(q)
				h := fakeReconciler(t, podGroup(1)).podEvents()
				switch e := tc.event.(type) {
				case event.CreateEvent:
					h.Create(t.Context(), e, q)
				case event.UpdateEvent:
					h.Update(t.Context(), e, q)
				case event.DeleteEvent:
					h.Delete(t.Context(), e, q)
				}
				time.Sleep(time.Minute)
				got := looks()
				if len(got) != len(tc.want) {
					t.Fatalf("looks %v, want %v", got, tc.want)
				}
				for name, at := range tc.want {
					if len(got[name]) != 1 || got[name][0] != at {
						t.Errorf("group %s is looked at after %v, want %v", name, got[name], at)
					}
				}
			})
		})
	}
}

// A gang of 250 that is bound within a second is reconciled once in each quarter of it.
func TestAGangIsLookedAtAFewTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := priorityqueue.New[ctrl.Request]("gang")
		defer q.ShutDown()
		looks := looksAt(q)
		h := fakeReconciler(t, podGroup(250)).podEvents()
		for i, pod := range pods(250) {
			pod.Name = fmt.Sprintf("p%03d", i)
			after := pod.DeepCopy()
			bound(after)
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: pod, ObjectNew: after}, q)
			time.Sleep(4 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if got := looks()["g"]; len(got) != 4 {
			t.Errorf("looked at after %v, want four times", got)
		}
	})
}
