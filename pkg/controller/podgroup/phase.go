package podgroup

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// counts is how many pods of a group are where.
type counts struct {
	// members is all of them.
	members int32
	// scheduled have a node, finished ones included; holding are those of them
	// that have not ended.
	scheduled, holding         int32
	running, succeeded, failed int32
}

func countOf(pods []*corev1.Pod) counts {
	var c counts
	for _, pod := range pods {
		c.members++
		if pod.Spec.NodeName != "" {
			c.scheduled++
			if !ended(pod) {
				c.holding++
			}
		}
		switch pod.Status.Phase {
		case corev1.PodRunning:
			c.running++
		case corev1.PodSucceeded:
			c.succeeded++
		case corev1.PodFailed:
			c.failed++
		case corev1.PodPending, corev1.PodUnknown:
		}
	}
	return c
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// phaseOf says how far a group has come. A Job knows best whether it has
// finished or failed: its pods are retried, and it may have more completions than
// pods at a time. A group without a Job is judged by its pods, and keeps its last
// word when they are gone.
func phaseOf(before scheduling.PodGroupPhase, c counts, minMember int32, job *batchv1.Job) scheduling.PodGroupPhase {
	switch {
	case jobIs(job, batchv1.JobComplete):
		return scheduling.PodGroupFinished
	case jobIs(job, batchv1.JobFailed):
		return scheduling.PodGroupFailed
	case c.members == 0 && job == nil && final(before):
		return before
	case job == nil && c.succeeded >= minMember && c.succeeded+c.failed == c.members:
		return scheduling.PodGroupFinished
	case c.running+c.succeeded >= minMember:
		return scheduling.PodGroupRunning
	case job == nil && c.failed > 0 && c.members-c.failed < minMember:
		return scheduling.PodGroupFailed
	case c.holding == 0:
		return scheduling.PodGroupPending
	case c.holding+c.succeeded < minMember && (before == scheduling.PodGroupRunning || before == scheduling.PodGroupUnknown):
		return scheduling.PodGroupUnknown
	default:
		return scheduling.PodGroupScheduling
	}
}

// final says that a phase is the last of a group whose pods are gone.
func final(p scheduling.PodGroupPhase) bool {
	return p == scheduling.PodGroupFinished || p == scheduling.PodGroupFailed
}

// jobIs says whether a condition of the Job is true; no Job has none.
func jobIs(job *batchv1.Job, t batchv1.JobConditionType) bool {
	if job == nil {
		return false
	}
	for _, c := range job.Status.Conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
