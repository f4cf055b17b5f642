package podgroup

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// schedulerNameField is the field by which the API server selects pods.
const schedulerNameField = "spec.schedulerName"

// maxReferences is the largest number of owners that a PodGroup of this controller names, and that
// the controller reads from a PodGroup. Whoever may write PodGroups can write ten thousand
// references into one, and each may cost a read of the API server.
const maxReferences = 128

// CacheByObject returns how a manager's cache must hold what this controller reads: only the
// pods that ask for the scheduler, and of all objects only the fields that are read. So a user
// cannot fill its memory with metadata. Owners of other kinds are not cached: they are
// read from the API server when they are needed.
func CacheByObject(c Config) map[client.Object]cache.ByObject {
	held := map[client.Object]cache.ByObject{
		&corev1.Pod{}: {
			Field:     fields.OneTermEqualSelector(schedulerNameField, c.SchedulerName),
			Transform: slimPod,
		},
		&scheduling.PodGroup{}: {Transform: slimPodGroup},
	}
	for _, k := range group.WatchedKinds() {
		held[k.New()] = cache.ByObject{Transform: slimPodOwner}
	}
	return held
}

// slimPod drops the fields of a pod that are not read,
// because a cluster may have a hundred thousand pods.
func slimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	slimMeta(&pod.ObjectMeta)
	pod.Spec = corev1.PodSpec{SchedulerName: pod.Spec.SchedulerName, NodeName: pod.Spec.NodeName}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
	return pod, nil
}

// slimPodOwner drops the fields of a Job, a ReplicaSet or a StatefulSet that are not read.
func slimPodOwner(obj any) (any, error) {
	switch o := obj.(type) {
	case *batchv1.Job:
		slimOwnerMeta(&o.ObjectMeta)
		slimTemplate(&o.Spec.Template)
		o.Spec.Selector, o.Spec.PodFailurePolicy, o.Spec.SuccessPolicy = nil, nil, nil
		o.Status = batchv1.JobStatus{Conditions: o.Status.Conditions, Succeeded: o.Status.Succeeded, FailedIndexes: o.Status.FailedIndexes}
	case *appsv1.ReplicaSet:
		slimOwnerMeta(&o.ObjectMeta)
		slimTemplate(&o.Spec.Template)
		o.Spec = appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas, Template: o.Spec.Template}
		o.Status = appsv1.ReplicaSetStatus{}
	case *appsv1.StatefulSet:
		slimOwnerMeta(&o.ObjectMeta)
		slimTemplate(&o.Spec.Template)
		o.Spec = appsv1.StatefulSetSpec{Replicas: o.Spec.Replicas, PodManagementPolicy: o.Spec.PodManagementPolicy, Template: o.Spec.Template}
		o.Status = appsv1.StatefulSetStatus{}
	}
	return obj, nil
}

// slimMeta drops the metadata of a pod or of an owner of pods that is not
// read: of the owner references only that of the controller is.
func slimMeta(m *metav1.ObjectMeta) {
	m.ManagedFields, m.Finalizers = nil, nil
	m.Annotations = group.ProjectAnnotations(m.Annotations)
	m.OwnerReferences = group.ControllerReference(m)
}

// slimPodGroup drops the fields of a PodGroup that are not read. It keeps at most
// maxReferences owner references, and of the managed fields only who made it and who set minMember.
func slimPodGroup(obj any) (any, error) {
	pg, ok := obj.(*scheduling.PodGroup)
	if !ok {
		return obj, nil
	}
	pg.ManagedFields = slimManagedFields(pg.ManagedFields)
	pg.Finalizers = nil
	pg.Annotations = group.ProjectAnnotations(pg.Annotations)
	made, ok := pg.Labels[ManagedByLabel]
	if pg.Labels = nil; ok {
		pg.Labels = map[string]string{ManagedByLabel: made}
	}
	var refs []metav1.OwnerReference
	for _, ref := range pg.OwnerReferences {
		if len(refs) < maxReferences && group.OwnerOf(ref).CanExist() && len(ref.APIVersion) <= maxVersion {
			refs = append(refs, ref)
		}
	}
	pg.OwnerReferences = refs
	return pg, nil
}

// slimOwnerMeta drops the metadata of an owner of pods that is not
// read. Only the labels of its template are, and not its own.
func slimOwnerMeta(m *metav1.ObjectMeta) {
	slimMeta(m)
	m.Labels = nil
}

func slimTemplate(t *corev1.PodTemplateSpec) {
	t.Annotations = group.ProjectAnnotations(t.Annotations)
	t.Spec = corev1.PodSpec{SchedulerName: t.Spec.SchedulerName}
}
