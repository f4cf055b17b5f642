package podgroup

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// podChanged says whether an update of a pod counts: most say nothing about its
// group.
func podChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Pod)
	after, ok2 := e.ObjectNew.(*corev1.Pod)
	return !ok || !ok2 ||
		before.Spec.NodeName != after.Spec.NodeName ||
		before.Status.Phase != after.Status.Phase ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!maps.Equal(before.Labels, after.Labels)
}

// jobChanged says whether an update of a Job counts: its spec, its conditions and
// how many of its pods have succeeded.
func jobChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*batchv1.Job)
	after, ok2 := e.ObjectNew.(*batchv1.Job)
	return !ok || !ok2 ||
		before.Generation != after.Generation ||
		before.Status.Succeeded != after.Status.Succeeded ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions)
}
