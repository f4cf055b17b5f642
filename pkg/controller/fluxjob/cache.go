package fluxjob

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// CacheOptions returns the cache options of a manager, given those that its other controllers need. The cache also has what
// this controller reads of Jobs and of pods that wait in a queue: what their pods ask for as one container, and of labels
// those alone that say who manages them. A jobspec is kept as its hash.
func CacheOptions(others cache.Options, config Config) cache.Options {
	for obj, by := range others.ByObject {
		switch obj.(type) {
		case *batchv1.Job, *corev1.Pod:
			by.Transform = keeping(config.SchedulerName, by.Transform)
			others.ByObject[obj] = by
		}
	}
	others.DefaultTransform = slimmed(others.DefaultTransform)
	return others
}

// keeping returns a transform that keeps what this controller reads of a Job or a pod, beside what another one keeps.
func keeping(scheduler string, other toolscache.TransformFunc) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case *batchv1.Job:
			labels := managers(o.Labels)
			var template *corev1.PodSpec
			if o.Spec.Template.Spec.SchedulerName == scheduler {
				template = new(slimPodSpec(&o.Spec.Template.Spec))
				keepAmong(template, &o.Spec.Template, o.Namespace)
			}
			active := o.Status.Active
			kept, err := transformed(other, obj)
			if job, is := kept.(*batchv1.Job); is && err == nil {
				job.Labels, job.Status.Active = labels, active
				if template != nil {
					job.Spec.Template.Spec = *template
				}
			}
			return kept, err
		case *corev1.Pod:
			if metav1.GetControllerOfNoCopy(o) != nil {
				return transformed(other, obj)
			}
			if !waitsInQueue(o) {
				return keepingLimit(other, o)
			}
			spec, because := slimPodSpec(&o.Spec), o.Status.Reason
			spec.NodeName, spec.TerminationGracePeriodSeconds, spec.Priority = o.Spec.NodeName, o.Spec.TerminationGracePeriodSeconds, o.Spec.Priority
			kept, err := transformed(other, obj)
			if pod, is := kept.(*corev1.Pod); is && err == nil {
				pod.Spec, pod.Status.Reason = spec, because
			}
			return kept, err
		default:
			return transformed(other, obj)
		}
	}
}

// keepingLimit is transformed for a pod that names no queue: it may run in one, because it has named one.
func keepingLimit(other toolscache.TransformFunc, pod *corev1.Pod) (any, error) {
	deadline, because := pod.Spec.ActiveDeadlineSeconds, pod.Status.Reason
	kept, err := transformed(other, pod)
	if pod, is := kept.(*corev1.Pod); is && err == nil {
		pod.Spec.ActiveDeadlineSeconds, pod.Status.Reason = deadline, because
	}
	return kept, err
}

func transformed(f toolscache.TransformFunc, obj any) (any, error) {
	if f == nil {
		return obj, nil
	}
	return f(obj)
}

// waitsInQueue reports whether a pod that nothing controls names a queue, or has the gate of queues.
func waitsInQueue(pod *corev1.Pod) bool {
	_, named := pod.Labels[group.QueueLabel]
	return named || hasGate(pod.Spec.SchedulingGates)
}

// managers returns the labels that say who manages a workload.
func managers(labels map[string]string) map[string]string {
	var kept map[string]string
	for _, key := range []string{group.QueueLabel, group.KueueLabel} {
		if value, has := labels[key]; has {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

// slimPodSpec returns the part of a pod spec by which pods wait and are placed. What its containers request is in one
// container.
func slimPodSpec(spec *corev1.PodSpec) corev1.PodSpec {
	slim := corev1.PodSpec{
		SchedulerName: spec.SchedulerName, SchedulingGroup: spec.SchedulingGroup, SchedulingGates: spec.SchedulingGates,
		PriorityClassName: spec.PriorityClassName, ActiveDeadlineSeconds: spec.ActiveDeadlineSeconds,
		NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations,
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requestsOf(spec)}}},
	}
	if required := nodeRulesOf(spec).Affinity; required != nil {
		slim.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
	return slim
}

// slimmed returns a transform that drops the fields of FluxJobs, Queues, PriorityClasses and metadata that are not read.
func slimmed(other toolscache.TransformFunc) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		switch o := obj.(type) {
		case *v1alpha1.FluxJob:
			o.ManagedFields, o.Finalizers, o.Labels = nil, nil, nil
			o.Spec.Jobspec = jobspecHash(o.Spec.Jobspec)
			if o.Status.Allocation != nil {
				o.Status.Allocation.Seats = nil
			}
		case *v1alpha1.Queue:
			o.ManagedFields, o.Status = nil, v1alpha1.QueueStatus{}
		case *schedulingv1.PriorityClass:
			o.ManagedFields, o.Annotations = nil, nil
		case *metav1.PartialObjectMetadata:
			o.ManagedFields, o.Annotations, o.OwnerReferences, o.Finalizers = nil, nil, nil, nil
		default:
			return transformed(other, obj)
		}
		return obj, nil
	}
}
