package podgroup

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// podChanged says whether an update of a pod counts: most say nothing about its
// group. Another UID does: the watch was interrupted, and a namesake came.
func podChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Pod)
	after, ok2 := e.ObjectNew.(*corev1.Pod)
	return !ok || !ok2 ||
		before.UID != after.UID ||
		before.Spec.NodeName != after.Spec.NodeName ||
		before.Status.Phase != after.Status.Phase ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(readAnnotations(before.Annotations), readAnnotations(after.Annotations)) ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
}

// podOwnerChanged says whether an update of a part counts: another object of its name,
// its spec, what controls it and, of a Job, its conditions, how many of its pods
// have succeeded and which indexes have failed.
func podOwnerChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	if before.GetUID() != after.GetUID() ||
		before.GetGeneration() != after.GetGeneration() ||
		before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
		!equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) {
		return true
	}
	was, ok := before.(*batchv1.Job)
	is, ok2 := after.(*batchv1.Job)
	return ok && ok2 &&
		(was.Status.Succeeded != is.Status.Succeeded ||
			!ptr.Equal(was.Status.FailedIndexes, is.Status.FailedIndexes) ||
			!equality.Semantic.DeepEqual(was.Status.Conditions, is.Status.Conditions))
}
