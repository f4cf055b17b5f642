package preemption

import (
	"math"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/group"
)

// QueueLabel is the label of objects that Kueue manages. Kueue suspends and resumes them itself.
const QueueLabel = "kueue.x-k8s.io/queue-name"

// An Owner is what is known of an object that controls pods, directly or through other objects.
type Owner struct {
	// Controller is the object that controls the owner. It is zero if there is none.
	Controller group.Owner
	// Queued is true if Kueue manages the owner.
	Queued bool
	// Failures says how many pods may fail before the owner gives up. It is nil if that is not known, or
	// if the owner does not give up.
	Failures *Failures
}

// Failures says how many pods of a Job may be deleted before the Job fails.
type Failures struct {
	// Left is the number of pods that may still fail.
	Left int32
	// LeftPerIndex is the number of failures that each index may have in all. It is negative if failures are
	// not counted for each index.
	LeftPerIndex int32
	// Ignored is true if pods that are evicted do not count.
	Ignored bool
}

// OwnerOf returns what the metadata of an object says of it. Use OwnerOfJob for a Job.
func OwnerOf(obj metav1.Object) Owner {
	return Owner{Controller: group.ControllerOf(obj), Queued: obj.GetLabels()[QueueLabel] != ""}
}

// defaultBackoffLimit is the backoffLimit of a Job that has none. The API server writes it.
const defaultBackoffLimit = 6

// OwnerOfJob returns what a Job says of itself. A pod that is deleted counts as failed, and a Job fails when
// more pods than its backoffLimit have failed (KEP-3329, KEP-3850).
func OwnerOfJob(job *batchv1.Job) Owner {
	o := OwnerOf(job)
	limit := int32(defaultBackoffLimit)
	if job.Spec.BackoffLimit != nil {
		limit = *job.Spec.BackoffLimit
	}
	f := Failures{Left: limit - min(limit, job.Status.Failed), LeftPerIndex: -1, Ignored: ignoresDisruption(job.Spec.PodFailurePolicy)}
	if per := job.Spec.BackoffLimitPerIndex; per != nil {
		f.LeftPerIndex = *per
		if job.Spec.BackoffLimit == nil {
			f.Left = math.MaxInt32
		}
	}
	o.Failures = &f
	return o
}

// The exit codes of a container that SIGTERM or SIGKILL ends.
const exitTerminated, exitKilled = 143, 137

// ignoresDisruption reports whether a pod with the condition DisruptionTarget does not count as failed. The
// first rule that matches decides.
func ignoresDisruption(policy *batchv1.PodFailurePolicy) bool {
	if policy == nil {
		return false
	}
	for _, rule := range policy.Rules {
		if codes := rule.OnExitCodes; codes != nil && rule.Action != batchv1.PodFailurePolicyActionIgnore {
			in := slices.Contains(codes.Values, exitTerminated) || slices.Contains(codes.Values, exitKilled)
			out := !slices.Contains(codes.Values, exitTerminated) || !slices.Contains(codes.Values, exitKilled)
			if codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && in || codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn && out {
				return false
			}
		}
		for _, pattern := range rule.OnPodConditions {
			if pattern.Type == corev1.DisruptionTarget && (pattern.Status == corev1.ConditionTrue || pattern.Status == "") {
				return rule.Action == batchv1.PodFailurePolicyActionIgnore
			}
		}
	}
	return false
}

// indexFailures returns how often the index of a pod has failed before, as the Job controller records it.
func indexFailures(pod *corev1.Pod) int32 {
	n, err := strconv.ParseInt(pod.Annotations[batchv1.JobIndexFailureCountAnnotation], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// isCronJob reports whether an owner only makes Jobs. It does not resume a Job that is suspended, and its own
// field suspend is about Jobs that it has not made yet.
func isCronJob(o group.Owner) bool { return o.Group == batchv1.GroupName && o.Kind == "CronJob" }

// maxOwners is how many objects are followed from a pod upwards.
const maxOwners = 8

// A line is the objects that control a pod.
type line struct {
	// top is the object that no other controls, CronJobs aside. It is zero if it is not known.
	top group.Owner
	// queued is true if Kueue manages one of the objects.
	queued bool
	// suspend is the object at the top if somebody else than Kueue may suspend it. Otherwise it is zero.
	suspend group.Owner
	// failures is what is known of the failures of the object that controls the pod itself.
	failures *Failures
}

// follow returns the objects above the controller of a pod.
func follow(namespace string, controller group.Owner, ownerOf func(namespace string, o group.Owner) (Owner, bool)) line {
	var l line
	for at, n := controller, 0; n < maxOwners; n++ {
		of, known := ownerOf(namespace, at)
		if n == 0 {
			l.failures = of.Failures
		}
		if !known {
			return l
		}
		l.queued = l.queued || of.Queued
		if of.Controller == (group.Owner{}) || isCronJob(of.Controller) {
			if l.top = at; !l.queued && group.SuspendPath(at) != nil {
				l.suspend = at
			}
			return l
		}
		at = of.Controller
	}
	return l
}
