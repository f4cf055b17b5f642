package podgroup

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// ConditionValid is the type of the condition that says whether the labels of
// the group's pods can be read. Nothing of a group starts while it is false.
const ConditionValid = "Valid"

// Reasons of ConditionValid. ReasonInvalidSize is also that of an event.
const (
	ReasonValidSize   = "ValidGroupSize"
	ReasonInvalidSize = "InvalidGroupSize"
)

// nextStatus is the status as it should be. Fields of others stay as they are.
func nextStatus(o observed, w wanted) scheduling.PodGroupStatus {
	s := *o.podGroup.Status.DeepCopy()
	c := countOf(o.pods)
	s.Phase = phaseOf(s.Phase, c, w.minMember, o.job)
	if c.members > 0 || !final(s.Phase) {
		s.Running, s.Succeeded, s.Failed = c.running, c.succeeded, c.failed
	}
	if s.OccupiedBy == "" {
		s.OccupiedBy = occupant(o)
	}
	if o.plainCRD {
		return s
	}
	if c.members > 0 || !final(s.Phase) {
		s.Scheduled = c.scheduled
	}
	if s.CreationTime == nil || s.CreationTime.IsZero() {
		s.CreationTime = new(creationTime(o))
	}
	valid := metav1.Condition{
		Type: ConditionValid, Status: metav1.ConditionTrue, Reason: ReasonValidSize, Message: w.message,
		ObservedGeneration: o.podGroup.Generation, LastTransitionTime: metav1.NewTime(o.now),
	}
	if !w.valid {
		valid.Status, valid.Reason = metav1.ConditionFalse, ReasonInvalidSize
	}
	meta.SetStatusCondition(&s.Conditions, valid)
	return s
}

// occupant names the workload that a group belongs to, as scheduler-plugins
// does: the namespace and the name of the owner of its pods.
func occupant(o observed) string {
	if o.job != nil {
		return o.job.Namespace + "/" + o.job.Name
	}
	for _, pod := range o.pods {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			return pod.Namespace + "/" + owner.Name
		}
	}
	return ""
}

// creationTime is the present time, held to the second in which the API server
// says that the group began to wait: a controller that comes late, or whose clock
// is wrong, changes the order of no two groups that are a second apart.
func creationTime(o observed) metav1.MicroTime {
	since := o.podGroup.CreationTimestamp.Time
	// A Job that is resumed shows it in its conditions a little later.
	if o.job != nil && !jobIs(o.job, batchv1.JobSuspended) {
		since = waitsSince(o.job)
	}
	t := o.now.Truncate(time.Microsecond)
	if last := since.Add(time.Second - time.Microsecond); t.After(last) {
		t = last
	}
	if t.Before(since) {
		t = since
	}
	return metav1.NewMicroTime(t)
}

// waitsSince is when a Job was made or, if that is later, resumed.
func waitsSince(job *batchv1.Job) time.Time {
	since := job.CreationTimestamp.Time
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionFalse && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return since
}

// due says whether a status must be written now and, if not, after which time it
// must be looked at again; 0 is when something changes. stale is since when it
// has waited.
func (c Config) due(before, next *scheduling.PodGroupStatus, minMember int32, stale, now time.Time) (write bool, after time.Duration, since time.Time) {
	if urgent(before, next, minMember) {
		return true, 0, time.Time{}
	}
	if before.Phase == next.Phase && sameCounts(before, next) {
		return false, 0, time.Time{}
	}
	if stale.IsZero() {
		stale = now
	}
	if wait := stale.Add(c.CountDelay).Sub(now); wait > 0 {
		return false, wait, stale
	}
	return true, 0, time.Time{}
}

// urgent says that a status differs in more than numbers of pods. While pods are
// bound one by one the group has not come further: that is told once minMember
// have a node, or when it has lasted.
func urgent(before, next *scheduling.PodGroupStatus, minMember int32) bool {
	bindingStarts := before.Phase == scheduling.PodGroupPending && next.Phase == scheduling.PodGroupScheduling &&
		next.Scheduled < minMember
	return before.Phase != next.Phase && !bindingStarts ||
		before.OccupiedBy != next.OccupiedBy ||
		(before.CreationTime == nil) != (next.CreationTime == nil) ||
		!equality.Semantic.DeepEqual(meta.FindStatusCondition(before.Conditions, ConditionValid), meta.FindStatusCondition(next.Conditions, ConditionValid))
}

// sameCounts compares the numbers that are worth a write of their own. Those of
// running pods are told when minMember of them run, and from then on.
func sameCounts(before, next *scheduling.PodGroupStatus) bool {
	if before.Scheduled != next.Scheduled {
		return false
	}
	return next.Phase == scheduling.PodGroupScheduling ||
		before.Running == next.Running && before.Succeeded == next.Succeeded && before.Failed == next.Failed
}
