package podgroup

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/walltime"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// schedulerNameField is the field by which the API server selects pods.
const schedulerNameField = "spec.schedulerName"

// maxReferences bounds the owner references that the controller writes into a PodGroup and reads
// from one. A user who can write PodGroups could write ten thousand references into one, and each
// may cost a request to the API server.
const maxReferences = 128

// CacheOptions returns the cache options that the manager needs. The cache has only the pods of
// this scheduler. Each object in it has only the fields that the controller reads, so that a user
// cannot fill the controller's memory with others. Kinds of owners that are not watched are not
// in the cache. The controller reads such owners from the API server when it needs them.
func CacheOptions(c Config) cache.Options {
	held := map[client.Object]cache.ByObject{
		&corev1.Pod{}: {
			Field:     fields.OneTermEqualSelector(schedulerNameField, c.SchedulerName),
			Transform: slimPod,
		},
	}
	for _, k := range group.WatchedKinds() {
		held[k.New()] = cache.ByObject{Transform: slimPodOwner}
	}
	// ByObject may not name PodGroups: then the manager would not start without their CRD.
	return cache.Options{ByObject: held, DefaultTransform: slimPodGroup}
}

// slimPod drops the fields of a pod that are not read,
// because a cluster may have a hundred thousand pods.
func slimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	slimMeta(&pod.ObjectMeta)
	pod.Spec = corev1.PodSpec{SchedulerName: pod.Spec.SchedulerName, NodeName: pod.Spec.NodeName, SchedulingGroup: pod.Spec.SchedulingGroup, TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, Conditions: boundCondition(pod)}
	return pod, nil
}

// boundCondition returns the condition that says when a pod with a node was bound, without its message. It
// returns nothing for other pods.
func boundCondition(pod *corev1.Pod) []corev1.PodCondition {
	if pod.Spec.NodeName == "" {
		return nil
	}
	return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(walltime.BoundAt(pod))}}
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

// slimMeta drops metadata that is not read, from a pod or from an owner of pods. Of the owner
// references it keeps only the one of the controller.
func slimMeta(m *metav1.ObjectMeta) {
	m.ManagedFields, m.Finalizers = nil, nil
	m.Annotations = group.ProjectAnnotations(m.Annotations)
	m.OwnerReferences = group.ControllerReference(m)
}

// slimPodGroup drops the fields of a PodGroup, of either kind, that are not read. It keeps at most maxReferences
// owner references, and of the managed fields only what slimManagedFields keeps.
func slimPodGroup(obj any) (any, error) {
	if native, ok := obj.(*schedulingv1beta1.PodGroup); ok {
		slimNativePodGroup(native)
		return native, nil
	}
	pg, ok := obj.(*scheduling.PodGroup)
	if !ok {
		return obj, nil
	}
	pg.Spec.MinResources = nil
	pg.ManagedFields = slimManagedFields(pg.ManagedFields)
	pg.Finalizers = nil
	pg.Annotations = group.ProjectAnnotations(pg.Annotations)
	made, ok := pg.Labels[ManagedByLabel]
	if pg.Labels = nil; ok {
		pg.Labels = map[string]string{ManagedByLabel: made}
	}
	var refs []metav1.OwnerReference
	for _, ref := range pg.OwnerReferences {
		if len(refs) < maxReferences && group.OwnerOf(ref).CanExist() && len(ref.APIVersion) <= maxAPIVersionLength {
			refs = append(refs, ref)
		}
	}
	pg.OwnerReferences = refs
	return pg, nil
}

// slimOwnerMeta is slimMeta for an owner of pods. It also drops the labels of the owner, because
// only the labels of its pod template are read.
func slimOwnerMeta(m *metav1.ObjectMeta) {
	slimMeta(m)
	m.Labels = nil
}

func slimTemplate(t *corev1.PodTemplateSpec) {
	t.Annotations = group.ProjectAnnotations(t.Annotations)
	t.Spec = corev1.PodSpec{SchedulerName: t.Spec.SchedulerName, SchedulingGroup: t.Spec.SchedulingGroup}
}
