package podgroup

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
)

// groupIndex is the index of pods and Jobs by the name of their PodGroup.
const groupIndex = "fluence.group"

// schedulerNameField is the field that the API server selects pods by.
const schedulerNameField = "spec.schedulerName"

// CacheByObject says how a manager's cache must hold what this controller reads:
// of the pods only those that ask for the scheduler, of pods and Jobs only what
// matters here.
func CacheByObject(c Config) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}: {
			Field:     fields.OneTermEqualSelector(schedulerNameField, c.SchedulerName),
			Transform: slimPod,
		},
		&batchv1.Job{}: {Transform: slimJob},
	}
}

// slimPod drops what is not read of a pod: a cluster may have a hundred thousand.
func slimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	pod.ManagedFields, pod.Annotations = nil, nil
	pod.Spec = corev1.PodSpec{SchedulerName: pod.Spec.SchedulerName, NodeName: pod.Spec.NodeName}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
	return pod, nil
}

// slimJob drops what is not read of a Job.
func slimJob(obj any) (any, error) {
	job, ok := obj.(*batchv1.Job)
	if !ok {
		return obj, nil
	}
	job.ManagedFields, job.Annotations = nil, nil
	job.Spec.Template.Spec = corev1.PodSpec{SchedulerName: job.Spec.Template.Spec.SchedulerName}
	return job, nil
}

// podGroupOf returns the name of the PodGroup that a pod waits for, if any.
func podGroupOf(obj client.Object) []string {
	if id := group.Of(obj.(*corev1.Pod)); id.Gang {
		return []string{id.Key.Name}
	}
	return nil
}

// podGroupOfJob returns the name of the PodGroup that is made for a Job. Pods
// with a group label of their own are not the Job's group.
func podGroupOfJob(obj client.Object) []string {
	job := obj.(*batchv1.Job)
	name := group.JobName(job.Name, job.UID)
	if other := job.Spec.Template.Labels[group.Label]; other != "" && other != name {
		return nil
	}
	return []string{name}
}

// requests turns the name of a PodGroup into a request to see to it.
func requests(names func(client.Object) []string) func(context.Context, client.Object) []ctrl.Request {
	return func(_ context.Context, obj client.Object) []ctrl.Request {
		var rs []ctrl.Request
		for _, name := range names(obj) {
			rs = append(rs, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}})
		}
		return rs
	}
}

// podsOf lists the pods of a group. They are the cache's own: not to be changed.
func (r *reconciler) podsOf(ctx context.Context, key types.NamespacedName) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.client.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{groupIndex: key.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list pods of group: %w", err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

// jobOf returns the Job that a group is named for, nil if there is none.
func (r *reconciler) jobOf(ctx context.Context, key types.NamespacedName) (*batchv1.Job, error) {
	var list batchv1.JobList
	err := r.client.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{groupIndex: key.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list jobs of group: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}
