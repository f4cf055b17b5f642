package cli

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
		"when a job starts that is over a limit by then": {args: "when sweep", objects: limited(func(l *v1alpha1.QueueLimits) { l.PerNamespace.Running = new(int32(3)) }, all())},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { tc.compare(t, name) })
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
