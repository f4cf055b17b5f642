package fluxjob

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// newReconciler returns a reconciler over a client that has some objects and what was written, as the client of a manager. on has what
// the client does instead.
func newReconciler(t *testing.T, on interceptor.Funcs, objs ...client.Object) (*reconciler, *events.FakeRecorder) {
	t.Helper()
	queues := queuesOf(t, objs...)
	c := interceptor.NewClient(queues.reader.(client.WithWatch), on)
	count, err := newCounter(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(100)
	return &reconciler{
		config: DefaultConfig(), client: c, live: c, queues: queues, events: recorder, clock: testingclock.NewFakePassiveClock(newWorld(t).now), count: count,
		announcer: newAnnouncer(), turn: make(chan struct{}, 1), told: map[types.NamespacedName]string{},
	}, recorder
}

// running returns a Job that runs with a pod on a node, and the pod.
func running(t *testing.T, name string) (*batchv1.Job, *corev1.Pod) {
	job := newWorld(t, direct, func(j *batchv1.Job) { j.Name, j.UID, j.Status.Active = name, types.UID(name), 1 }).job
	return job, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{{Kind: jobKind, Name: name, UID: job.UID, Controller: new(true)}}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	}
}

// Several Jobs that run get the label of a queue at once. Each worker counts the Jobs that the other workers have just adopted.
func TestJobsThatRunDoNotFillAQueueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, most = 8, 3
		objs := []client.Object{open("batch", func(q *v1alpha1.Queue) { q.Spec.Limits.Running = new(int32(most)) })}
		for i := range jobs {
			job, pod := running(t, fmt.Sprintf("job-%d", i))
			objs = append(objs, job, pod)
		}
		var writing atomic.Int32
		open := make(chan struct{})
		r, _ := newReconciler(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, of string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			writing.Add(1)
			<-open
			return c.SubResource(of).Patch(ctx, obj, patch, opts...)
		}}, objs...)
		var workers sync.WaitGroup
		for i := range jobs {
			workers.Go(func() {
				name := fmt.Sprintf("job-%d", i)
				for again := true; again; {
					result, err := r.Reconcile(t.Context(), keyOf("ns", jobKind, name, types.UID(name)))
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
					again = result.RequeueAfter > 0
				}
			})
		}
		synctest.Wait()
		if n := writing.Load(); n != 1 {
			t.Errorf("%d workers write that their Job counts, want one at a time", n)
		}
		close(open)
		workers.Wait()
		var all v1alpha1.FluxJobList
		if err := r.client.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		for _, fj := range all.Items {
			if fj.Status.Phase != v1alpha1.Running {
				t.Errorf("%s is %q, want Running", fj.Name, fj.Status.Phase)
			}
		}
		if len(all.Items) != most {
			t.Errorf("%d Jobs count, want the limit of the queue, %d", len(all.Items), most)
		}
	})
}

// What has become of a Job while a worker waited for its turn counts.
func TestAJobThatEndsBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job, pod := running(t, "solver")
		r, _ := newReconciler(t, interceptor.Funcs{}, open("batch"), job, pod)
		r.turn <- struct{}{}
		var worker sync.WaitGroup
		reconcile := func() {
			if _, err := r.Reconcile(t.Context(), keyOf("ns", jobKind, "solver", "solver")); err != nil {
				t.Error(err)
			}
		}
		worker.Go(reconcile)
		synctest.Wait()
		ended := job.DeepCopy()
		ended.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		if err := r.client.Status().Patch(t.Context(), ended, client.MergeFrom(job)); err != nil {
			t.Fatal(err)
		}
		<-r.turn
		worker.Wait()
		reconcile()
		var all v1alpha1.FluxJobList
		if err := r.client.List(t.Context(), &all); err != nil || len(all.Items) != 1 {
			t.Fatalf("%v, %d FluxJobs, want one", err, len(all.Items))
		}
		if s := all.Items[0].Status; s.Phase != v1alpha1.Finished || s.Allocation != nil {
			t.Errorf("status %+v, want it finished, and that it never had room", s)
		}
	})
}

// A worker waits for its turn no longer than it may work on a workload.
func TestATurnThatDoesNotComeEnds(t *testing.T) {
	job, pod := running(t, "solver")
	r, _ := newReconciler(t, interceptor.Funcs{}, open("batch"), job, pod)
	r.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Reconcile(ctx, keyOf("ns", jobKind, "solver", "solver")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of its context", err)
	}
}

// A Job that waits without a FluxJob, because the API server refuses that, says why.
func TestAFluxJobThatIsRefusedIsTold(t *testing.T) {
	quota := apierrors.NewForbidden(v1alpha1.FluxJobs.GroupResource(), "solver", errors.New("exceeded quota: few"))
	job := newWorld(t).job
	r, recorder := newReconciler(t, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return quota
	}}, open("batch"), job)
	for range 2 {
		if result, err := r.Reconcile(t.Context(), keyOf("ns", jobKind, job.Name, job.UID)); err != nil || result.RequeueAfter != goneDelay {
			t.Errorf("%v, error %v, want it tried again in a while", result, err)
		}
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events, want one", len(recorder.Events))
	}
	if e := <-recorder.Events; !strings.Contains(e, "Warning WriteRefused no FluxJob can be made, which is tried again: ") || !strings.Contains(e, "exceeded quota: few") {
		t.Errorf("event %q, want the text of the API server", e)
	}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil || job.Annotations[group.QueuedAnnotation] == "" {
		t.Errorf("%v, annotations %v, want the Job as it was", err, job.Annotations)
	}
}
