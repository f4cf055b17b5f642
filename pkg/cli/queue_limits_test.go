package cli

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

func TestQueueCommandsAboutLimits(t *testing.T) {
	all := func() []runtime.Object { return slices.Concat(batch(), queues()[1:]) }
	cases := map[string]call{
		"when a job of a file starts that is over a limit": {args: "when -f -", stdin: inBatch(), objects: limited(func(l *v1alpha1.QueueLimits) { l.Running = new(int32(2)) }, all())},
		"when a job of a file starts that is too large": {args: "when -f - -o json", stdin: inBatch(), objects: limited(func(l *v1alpha1.QueueLimits) {
			l.JobSize.Max.Requests = corev1.ResourceList{"cpu": resource.MustParse("500m")}
		}, all())},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { tc.compare(t, name) })
	}
}

// A job that ends before another one would start keeps it no longer.
func TestALimitKeepsAJobOnlyWhileOthersRun(t *testing.T) {
	from := metav1.NewTime(time.Date(2026, 1, 1, 14, 0, 0, 0, time.UTC))
	one := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: "batch"}}
	one.Spec.NamespaceSelector = &metav1.LabelSelector{}
	one.Spec.Limits.Running = new(int32(1))
	job := func(name string, end *metav1.Time) *v1alpha1.FluxJob {
		fj := &v1alpha1.FluxJob{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name}}
		fj.Spec.Queue, fj.Spec.Pods = "batch", 2
		fj.Status.Phase, fj.Status.Allocation = v1alpha1.Running, &v1alpha1.JobAllocation{End: end}
		return fj
	}
	for name, tc := range map[string]struct {
		end  *metav1.Time
		pods *int32
		want string
	}{
		"it ends then":    {end: &from},
		"it ends later":   {end: &metav1.Time{Time: from.Add(time.Hour)}, want: "LimitReached: spec.limits.running of Queue batch is 1: 1 is used, and it needs 1, unless jobs that run now end before their time limits"},
		"it has no end":   {want: "LimitReached: spec.limits.running of Queue batch is 1: 1 is used, and it needs 1, unless jobs that run now end before their time limits"},
		"it is too large": {end: &from, pods: new(int32(1)), want: "TooLarge: spec.pods: 2: Queue batch allows at most 1"},
	} {
		q := one.DeepCopy()
		q.Spec.Limits.JobSize.Max.Pods = tc.pods
		a := whenAnswer{From: from}
		a.addLimit(job("waits", nil), []*v1alpha1.FluxJob{job("runs", tc.end)}, q)
		if a.Limit != tc.want {
			t.Errorf("%s: %q, want %q", name, a.Limit, tc.want)
		}
	}
}

// limited is the queue batch among some objects with other limits.
func limited(change func(*v1alpha1.QueueLimits), objects []runtime.Object) []runtime.Object {
	for _, o := range objects {
		if q, ok := o.(*v1alpha1.Queue); ok && q.Name == "batch" {
			change(&q.Spec.Limits)
		}
	}
	return objects
}
