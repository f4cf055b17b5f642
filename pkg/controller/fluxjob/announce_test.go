package fluxjob

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/pace"
)

// If many Jobs come at once, the events of most are sent later, and only for Jobs that still wait then.
func TestManyJobsAreAnnouncedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const later = 5
		objs := []client.Object{open("batch")}
		for i := range pace.AtOnce + later {
			objs = append(objs, newWorld(t, func(j *batchv1.Job) { j.Name = fmt.Sprintf("job-%d", i); j.UID = types.UID(j.Name) }).job)
		}
		r, _ := newReconciler(t, interceptor.Funcs{}, objs...)
		recorder := events.NewFakeRecorder(2 * len(objs))
		r.events = recorder
		for _, job := range objs[1:] {
			if _, err := r.Reconcile(t.Context(), keyOf("ns", jobKind, job.GetName(), job.GetUID())); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(recorder.Events); n != pace.AtOnce {
			t.Fatalf("%d events at once, want %d", n, pace.AtOnce)
		}
		for range pace.AtOnce {
			<-recorder.Events
		}
		// Two events are not needed any more: one Job has been given room, and one is gone.
		var fj v1alpha1.FluxJob
		if err := r.client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: nameOfJob(objs[len(objs)-1])}, &fj); err != nil {
			t.Fatal(err)
		}
		admitted := fj.DeepCopy()
		admitted.Status.Phase, admitted.Status.Allocation = v1alpha1.Ready, &v1alpha1.JobAllocation{Attempt: 1}
		if err := r.client.Status().Patch(t.Context(), admitted, client.MergeFrom(&fj)); err != nil {
			t.Fatal(err)
		}
		if err := r.client.Delete(t.Context(), objs[len(objs)-2]); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r.announceLater(ctx)
		close(recorder.Events)
		n := 0
		for e := range recorder.Events {
			n++
			if !strings.HasPrefix(e, "Normal Queued waits in queue batch as FluxJob job-job-") {
				t.Errorf("event %q", e)
			}
		}
		if n != later-2 {
			t.Errorf("%d events later, want %d", n, later-2)
		}
	})
}

// nameOfJob returns the name of the FluxJob of a Job.
func nameOfJob(job client.Object) string {
	owner, _ := ownerOf(keyOf("ns", jobKind, job.GetName(), job.GetUID()).Name)
	return owner.PodGroupName()
}
