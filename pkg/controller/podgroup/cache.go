package podgroup

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
)

// schedulerNameField is the field by which the API server selects pods.
const schedulerNameField = "spec.schedulerName"

// annotationPrefix is the prefix of the annotations that this controller reads.
const annotationPrefix = "fluence.flux-framework.org/"

// CacheByObject returns how a manager's cache must hold what this controller reads: only the
// pods that ask for the scheduler, and of all objects only the fields that are read. Owners
// of other kinds are not cached: they are read from the API server when they are needed.
func CacheByObject(c Config) map[client.Object]cache.ByObject {
	held := map[client.Object]cache.ByObject{
		&corev1.Pod{}: {
			Field:     fields.OneTermEqualSelector(schedulerNameField, c.SchedulerName),
			Transform: slimPod,
		},
	}
	for _, k := range group.FollowedKinds() {
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
		slimMeta(&o.ObjectMeta)
		slimTemplate(&o.Spec.Template)
		o.Spec.Selector, o.Spec.PodFailurePolicy, o.Spec.SuccessPolicy = nil, nil, nil
		o.Status = batchv1.JobStatus{Conditions: o.Status.Conditions, Succeeded: o.Status.Succeeded, FailedIndexes: o.Status.FailedIndexes}
	case *appsv1.ReplicaSet:
		slimMeta(&o.ObjectMeta)
		slimTemplate(&o.Spec.Template)
		o.Spec = appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas, Template: o.Spec.Template}
		o.Status = appsv1.ReplicaSetStatus{}
	case *appsv1.StatefulSet:
		slimMeta(&o.ObjectMeta)
		slimTemplate(&o.Spec.Template)
		o.Spec = appsv1.StatefulSetSpec{Replicas: o.Spec.Replicas, PodManagementPolicy: o.Spec.PodManagementPolicy, Template: o.Spec.Template}
		o.Status = appsv1.StatefulSetStatus{}
	}
	return obj, nil
}

func slimMeta(m *metav1.ObjectMeta) {
	m.ManagedFields = nil
	m.Annotations = readAnnotations(m.Annotations)
}

func slimTemplate(t *corev1.PodTemplateSpec) {
	t.Annotations = readAnnotations(t.Annotations)
	t.Spec = corev1.PodSpec{SchedulerName: t.Spec.SchedulerName}
}

// readAnnotations returns the annotations that are read, nil if there are none.
func readAnnotations(all map[string]string) map[string]string {
	var read map[string]string
	for key, value := range all {
		if strings.HasPrefix(key, annotationPrefix) {
			if read == nil {
				read = map[string]string{}
			}
			read[key] = value
		}
	}
	return read
}
