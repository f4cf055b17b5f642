package podgroup

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-k8s/fluence/pkg/group"
)

// podChanged reports whether an update of a pod can change its group. A new
// UID can: the watch was interrupted, and another pod has the name now.
func podChanged(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Pod)
	after, ok2 := e.ObjectNew.(*corev1.Pod)
	return !ok || !ok2 ||
		before.UID != after.UID ||
		before.Spec.NodeName != after.Spec.NodeName ||
		before.Status.Phase != after.Status.Phase ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(group.ProjectAnnotations(before.Annotations), group.ProjectAnnotations(after.Annotations)) ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
}

// podOwnerChanged reports whether an update of a podOwner can change its
// group: a change of its UID, generation, deletion or owner references and,
// of a Job, of its conditions, status.succeeded or status.failedIndexes.
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
