// Package walltime answers how long pods may hold their nodes, and who ends them. A walltime is a bound: a pod that
// ends by itself does so earlier.
//
// Three things bound the time of a pod:
//
//   - The annotation group.DurationAnnotation counts from the bind. It is a wish, unless the controller enforces it.
//   - The pod's activeDeadlineSeconds counts from the pod's start on its node. The kubelet ends the pod.
//   - The activeDeadlineSeconds of its Job count from the Job's start, whether or not the pod has a node. The Job
//     controller ends the Job.
//
// A pod that has to end takes up to its termination grace period. Its room is free after that.
package walltime

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Bounds bound the time of a pod from outside the pod.
type Bounds struct {
	// Duration is the value of group.DurationAnnotation. 0 means that there is none.
	Duration time.Duration
	// Enforced is true if the controller ends pods after Duration.
	Enforced bool
	// JobDeadline is when the Job of the pod ends (see JobDeadline). It is the zero time if the Job has no end.
	JobDeadline time.Time
}

// An End is when the room of a pod is free again at the latest, in whole seconds.
type End struct {
	// Expected is the earliest end of all. It is the zero time if no end is known.
	Expected time.Time
	// Kept is the earliest end that somebody enforces. It is the zero time if nobody enforces an end.
	Kept time.Time
}

// EndOf returns the end of a pod. A pod without a node ends as if it was bound now.
func EndOf(pod *corev1.Pod, b Bounds, now time.Time) End {
	var e End
	bound, started := now, now
	if pod.Spec.NodeName != "" {
		bound = BoundAt(pod)
		started = bound
		if s := pod.Status.StartTime; s != nil {
			started = s.Time
		}
	}
	if b.Duration > 0 {
		e.Expected = bound.Add(b.Duration)
		if b.Enforced {
			e.Kept = e.Expected
		}
	}
	if s := pod.Spec.ActiveDeadlineSeconds; s != nil {
		e.keep(started.Add(seconds(*s)))
	}
	e.keep(b.JobDeadline)
	return End{roomFree(e.Expected, pod), roomFree(e.Kept, pod)}
}

// keep adds an end that is enforced. The zero time is none.
func (e *End) keep(at time.Time) {
	e.Expected, e.Kept = earlier(e.Expected, at), earlier(e.Kept, at)
}

// Last returns the end of pods that end one after another: their last end, and none if one of them has none.
func Last(ends ...End) End {
	if len(ends) == 0 {
		return End{}
	}
	last := ends[0]
	for _, e := range ends[1:] {
		last.Expected, last.Kept = later(last.Expected, e.Expected), later(last.Kept, e.Kept)
	}
	return last
}

// Until returns how long it is from now to an end, as a match.Request counts it: at least a second, and 0 without an end.
// An end that has passed is enforced soon.
func Until(end, now time.Time) time.Duration {
	if end.IsZero() {
		return 0
	}
	return max(end.Sub(now), time.Second)
}

// BoundAt returns when a pod was bound to its node, in whole seconds. A pod that was made on its node was
// bound when it was created.
func BoundAt(pod *corev1.Pod) time.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// JobDeadline returns when the Job controller ends a Job. It returns the zero time if the Job has no deadline, or is
// not started or suspended: its time begins when it starts again. It also does so if nobody ends what still
// runs, because the Job has ended or another controller manages it.
func JobDeadline(job *batchv1.Job) time.Time {
	s, start := job.Spec.ActiveDeadlineSeconds, job.Status.StartTime
	if s == nil || start == nil || job.Spec.Suspend != nil && *job.Spec.Suspend {
		return time.Time{}
	}
	if by := job.Spec.ManagedBy; by != nil && *by != batchv1.JobControllerName || hasEnded(job) {
		return time.Time{}
	}
	return start.Add(seconds(*s))
}

// hasEnded reports whether a Job has completed or failed.
func hasEnded(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	})
}

// maxSeconds are a hundred years. The API takes any number, and a time.Duration does not.
const maxSeconds = 100 * 365 * 24 * 60 * 60

// seconds returns a number of seconds, as the API has it.
func seconds(n int64) time.Duration { return time.Duration(min(n, maxSeconds)) * time.Second }

// roomFree returns when the room of a pod is free that has to end at a time, in whole seconds.
func roomFree(at time.Time, pod *corev1.Pod) time.Time {
	if at.IsZero() {
		return at
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		at = at.Add(seconds(*s))
	}
	if whole := at.Truncate(time.Second); whole.Before(at) {
		return whole.Add(time.Second)
	}
	return at
}

// earlier returns the earlier of two times. The zero time is later than all others.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// later returns the later of two times. The zero time is later than all others.
func later(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return a
	}
	return b
}
