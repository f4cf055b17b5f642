package admission

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/pace"
)

// While many FluxJobs come, fewer statuses a second are written that say why jobs wait.
func TestFluxJobsThatComeGoFirst(t *testing.T) {
	const before = 900 * time.Millisecond // the rush lasts a second
	for name, tc := range map[string]struct {
		come  int
		watch func(s arriving, fj *v1alpha1.FluxJob) error
		rate  int
	}{
		"few come":      {10, func(s arriving, fj *v1alpha1.FluxJob) error { return s.Add(fj) }, pace.Calm},
		"many come":     {100, func(s arriving, fj *v1alpha1.FluxJob) error { return s.Add(fj) }, pace.Rushed},
		"many change":   {100, func(s arriving, fj *v1alpha1.FluxJob) error { return s.Update(fj) }, pace.Calm},
		"many are read": {100, func(s arriving, fj *v1alpha1.FluxJob) error { return s.Replace([]any{fj}, "1") }, pace.Calm},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rules := Groups{Rules: func(string, map[string]string) (string, *jobspec.Topology, error) { return "", nil, nil }}
				s := arriving{newJobs(rules, make(chan struct{}, 1), time.Now), pace.New()}
				for i := range tc.come {
					fj := &v1alpha1.FluxJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i))}}
					if err := tc.watch(s, fj); err != nil {
						t.Fatal(err)
					}
				}
				for s.pace.Allow() {
				}
				<-time.After(before)
				n, want := 0, tc.rate*int(before/time.Millisecond)/1000
				for s.pace.Allow() {
					n++
				}
				if n != want {
					t.Errorf("%d writes in %v, want %d", n, before, want)
				}
			})
		})
	}
	d := newRig(t, 1).d
	if s, ok := d.jobsRead.store.ReflectorStore.(arriving); !ok || s.pace != d.writer.pace {
		t.Error("the watch of FluxJobs does not tell the writer of those that come")
	}
}

// A job that is gone uses no token of the pace: jobs that wait need it.
func TestJobsThatAreGoneCostNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		w := r.d.writer
		for w.pace.Allow() {
		}
		<-time.After(time.Second / pace.Calm) // one may be written
		for i := range 50 {
			w.add(types.NamespacedName{Namespace: ns, Name: fmt.Sprintf("gone-%d", i)}, false)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { w.run(ctx) })
		synctest.Wait()
		if n := w.later.Len(); n != 0 {
			t.Errorf("%d of 50 jobs that are gone wait for their turn", n)
		}
		if !w.pace.Allow() {
			t.Error("they took the turn of others")
		}
		cancel()
		w.stop()
		all.Wait()
	})
}
