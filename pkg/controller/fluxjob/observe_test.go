package fluxjob

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// A jobReader has one Job and one FluxJob, and fails for all else.
type jobReader struct {
	client.Client
	*world
}

func (r jobReader) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch o := obj.(type) {
	case *batchv1.Job:
		*o = *r.job.DeepCopy()
		return nil
	case *v1alpha1.FluxJob:
		if r.fluxJob == nil {
			return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		}
		*o = *r.fluxJob.DeepCopy()
		return nil
	}
	return fmt.Errorf("%T was read", obj)
}

func (r jobReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return fmt.Errorf("%T was read", list)
}

// Of a Job that is in no queue, or has ended, nothing is read but itself and its FluxJob: there may be an event of many each second.
func TestLittleIsReadForJobsInNoQueue(t *testing.T) {
	cases := map[string]struct {
		w    *world
		want bool // whether more is read
	}{
		"in no queue":             {newWorld(t, direct, labelled("")), false},
		"without a label":         {newWorld(t, direct, func(j *batchv1.Job) { j.Labels = nil }), false},
		"of another scheduler":    {newWorld(t, direct, func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulerName = "default-scheduler" }), false},
		"that waits":              {newWorld(t), true},
		"that has finished there": {newWorld(t), false},
	}
	done := cases["that has finished there"].w
	done.run()
	done.fluxJob.Status.Phase = v1alpha1.Finished
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &reconciler{config: DefaultConfig(), client: jobReader{world: tc.w}, queues: &Queues{}, clock: clock.RealClock{}}
			o, err := r.observe(t.Context(), "ns", tc.w.observe().owner)
			if (err != nil) != tc.want {
				t.Fatalf("%v, want that more is read: %t", err, tc.want)
			}
			if err == nil && o.decide().what != "" {
				t.Errorf("it writes: %s", o.decide().what)
			}
		})
	}
}
