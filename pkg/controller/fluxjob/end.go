package fluxjob

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// An ending is how a workload has ended.
type ending struct {
	result v1alpha1.JobResult
	at     time.Time
	// text is what is said of it, in words fit for a user.
	text string
}

// deadlineExceeded is the reason of a pod that the kubelet has ended after its deadline.
const deadlineExceeded = "DeadlineExceeded"

// jobEnding returns how a Job has ended. It returns nil if it has not, or not yet: its pods may still end.
func jobEnding(job *batchv1.Job) *ending {
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch {
		case c.Type == batchv1.JobComplete:
			return &ending{result: v1alpha1.Succeeded, at: c.LastTransitionTime.Time, text: "the Job has completed"}
		case c.Type == batchv1.JobFailed && c.Reason == batchv1.JobReasonDeadlineExceeded:
			return &ending{result: v1alpha1.WalltimeExceeded, at: c.LastTransitionTime.Time, text: "the Job ran longer than it may"}
		case c.Type == batchv1.JobFailed:
			return &ending{result: v1alpha1.Failed, at: c.LastTransitionTime.Time, text: "the Job has failed: " + c.Message}
		}
	}
	return nil
}

// podEnding returns how a pod has ended. It returns nil if it has not.
func podEnding(pod *corev1.Pod) *ending {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return &ending{result: v1alpha1.Succeeded, text: "the pod has succeeded"}
	case pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == deadlineExceeded:
		return &ending{result: v1alpha1.WalltimeExceeded, text: "the pod ran longer than it may"}
	case pod.Status.Phase == corev1.PodFailed:
		return &ending{result: v1alpha1.Failed, text: "the pod has failed"}
	}
	return nil
}
