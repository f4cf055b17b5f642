package cli

import (
	"encoding/json"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
)

// queueOfJob returns the queue that the labels of a Job name. It is empty for none.
func queueOfJob(job *batchv1.Job) (queue string, said bool) {
	return group.QueueOf(job.Labels, job.Spec.Template.Labels)
}

// jobLeaves returns the patch that takes a Job out of its queue, and lets it start. It returns nil for a Job that no queue
// keeps from starting, for one that its user has suspended, and for one of the default scheduler. One that another controller manages
// stays suspended. served is whether there are FluxJobs: then a Job that is not
// suspended yet may be so at any time. The Job has its own deadline again.
//
// The label gets an empty value: without a label, the Job would enter the default queue of its namespace again.
func jobLeaves(job *batchv1.Job, served bool) map[string]any {
	queue, _ := queueOfJob(job)
	_, byFluence := job.Annotations[v1alpha1.QueuedAnnotation]
	evicted := queue != "" && group.SuspendedFor(job) != ""
	switch held := suspended(job) && (byFluence || evicted); {
	case held:
	case suspended(job), !byFluence && (queue == "" || !served || isForeign(&job.Spec.Template.Spec)):
		return nil
	}
	annotations := map[string]any{v1alpha1.QueuedAnnotation: nil}
	spec := map[string]any{}
	group.RestoreDeadline(job.Spec.ActiveDeadlineSeconds, job.Annotations[group.DeadlineAnnotation], annotations, spec)
	if suspended(job) && group.WhyOthers(job) == "" {
		spec["suspend"] = false
		if evicted {
			annotations[group.SuspendedForAnnotation] = nil
		}
		if _, has := job.Spec.Template.Labels[v1alpha1.QueueLabel]; has {
			// The scheduler would hold its pods by it.
			spec["template"] = map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.QueueLabel: nil}}}
		}
	}
	return map[string]any{
		"metadata": map[string]any{
			"uid": job.UID, "resourceVersion": job.ResourceVersion,
			"labels": map[string]any{v1alpha1.QueueLabel: ""}, "annotations": annotations,
		},
		"spec": spec,
	}
}

// isForeign reports whether pods are the default scheduler's. Fluence may have any other name.
func isForeign(spec *corev1.PodSpec) bool { return spec.SchedulerName == corev1.DefaultSchedulerName }

// podLeaves returns the patch that takes a pod out of its queue, and lets it start. It returns nil for a pod that no queue keeps
// from starting, such as one of the default scheduler without the gate.
func podLeaves(pod *corev1.Pod) map[string]any {
	rest := []corev1.PodSchedulingGate{}
	for _, g := range pod.Spec.SchedulingGates {
		if g.Name != v1alpha1.QueueGate {
			rest = append(rest, g)
		}
	}
	gated := len(rest) < len(pod.Spec.SchedulingGates)
	if !gated && (pod.Labels[v1alpha1.QueueLabel] == "" || isForeign(&pod.Spec)) {
		return nil
	}
	patch := map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion,
		"labels": map[string]any{v1alpha1.QueueLabel: nil}, "annotations": map[string]any{v1alpha1.QueuedAnnotation: nil},
	}}
	if gated {
		patch["spec"] = map[string]any{"schedulingGates": rest}
	}
	return patch
}

// encoded returns a patch as JSON.
func encoded(patch map[string]any) []byte {
	text, err := json.Marshal(patch)
	if err != nil {
		panic(err) // it has strings, booleans, numbers and gates
	}
	return text
}
