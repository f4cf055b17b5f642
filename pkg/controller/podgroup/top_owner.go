package podgroup

import (
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flux-k8s/fluence/pkg/group"
)

// leaderWorkerSet is the kind LeaderWorkerSet. Each of its units (a leader with its workers) is a
// group.
var leaderWorkerSet = schema.GroupKind{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}

// A topOwner is an object at the top of the owners of a group's members.
type topOwner struct {
	topRef
	lookup lookup
	// why says in words for users why the owner cannot be read.
	why string
	// deleting is true if the owner is being deleted or is presumed gone. suspended is true if it
	// creates no pods for now. done is true if it has succeeded, and failed if it has failed.
	leaving, suspended, done, failed bool
	// reportsEnd is true if the status of this kind reports an end.
	ends bool
	// waitingSince is the time at which the owner was created or last resumed. It is zero while the
	// owner is suspended, and for kinds without such a time.
	since time.Time
	// size is the number of pods that the owner wants.
	size    group.Size
	invalid string
}

// An ownerState says how much is known about an owner.
type lookup int

const (
	// readable means that the owner was read.
	readable lookup = iota
	// unsized means that the kind gives no size, so the owner was not read.
	unsized
	// missing means that the owner does not exist any more.
	missing
	// unreadable means that the owner cannot be read, for instance for lack of permission.
	unreadable
)

// hasEnded reports whether the owner has ended, so that it creates no more pods.
func (w topOwner) hasEnded() bool { return w.done || w.failed }

// canOwn reports whether a PodGroup may refer to the owner.
func (w topOwner) canOwn() bool { return w.lookup != missing && !w.leaving }

// topOwnerOf returns the topOwner for a podOwner that has no controller.
func topOwnerOf(p podOwner) topOwner {
	w := topOwner{topRef: topRef{p.ref, p.owner()}, leaving: p.GetDeletionTimestamp() != nil, suspended: p.idle()}
	size, err := p.size()
	w.size = size
	if err != nil {
		w.invalid = err.Error()
	}
	if p.job != nil {
		w.ends = true
		w.done, w.failed = jobIs(p.job, batchv1.JobComplete), jobIs(p.job, batchv1.JobFailed)
		w.suspended = w.suspended || p.job.Spec.Suspend != nil && *p.job.Spec.Suspend
		// The conditions of a Job show a little later than its spec that it was resumed.
		if !jobIs(p.job, batchv1.JobSuspended) {
			w.since = waitsSince(p.job.CreationTimestamp.Time, conditionsOf(p.job))
		}
	}
	return w
}

// conditionsOf converts a Job's conditions to the type of other kinds.
func conditionsOf(job *batchv1.Job) []metav1.Condition {
	var all []metav1.Condition
	for _, c := range job.Status.Conditions {
		all = append(all, metav1.Condition{Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), LastTransitionTime: c.LastTransitionTime})
	}
	return all
}

// suspendedCondition is the type of the condition that Jobs,
// JobSets and MPIJobs have once they have been suspended.
const suspendedCondition = string(batchv1.JobSuspended)

// waitsSince returns when a workload was created or, if that is later, resumed.
func waitsSince(made time.Time, conditions []metav1.Condition) time.Time {
	for _, c := range conditions {
		if c.Type == suspendedCondition && c.Status == metav1.ConditionFalse && c.LastTransitionTime.After(made) {
			made = c.LastTransitionTime.Time
		}
	}
	return made
}

// topOwnerOfUnstructured returns the topOwner for an object of a kind that is not watched. It
// leaves out fields that cannot be parsed.
func topOwnerOfUnstructured(ref metav1.OwnerReference, obj *unstructured.Unstructured) (topOwner, error) {
	w := topOwner{topRef: topRef{ref, group.OwnerOf(ref)}, leaving: obj.GetDeletionTimestamp() != nil}
	spec, err := json.Marshal(obj.Object["spec"])
	if err != nil {
		return w, fmt.Errorf("encode the spec of %s %s: %w", ref.Kind, ref.Name, err)
	}
	if w.size, err = group.DefaultSize(w.owner, spec); err != nil {
		w.invalid = err.Error()
	}
	end := group.KindOf(w.owner).Lifecycle
	if end == nil {
		return w, nil
	}
	w.ends = true
	// A suspend field that is not a boolean counts as false.
	w.suspended, _, _ = unstructured.NestedBool(obj.Object, append([]string{"spec"}, end.SuspendPath...)...)
	conditions := conditionsOfUnstructured(obj)
	paused := false
	for _, c := range conditions {
		if c.Status != metav1.ConditionTrue {
			continue
		}
		switch c.Type {
		case end.Completed:
			w.done = true
		case end.Failed:
			w.failed = true
		case suspendedCondition:
			paused = true
		}
	}
	if !paused {
		w.since = waitsSince(obj.GetCreationTimestamp().Time, conditions)
	}
	return w, nil
}

// conditionsOfUnstructured returns the conditions that can be parsed.
func conditionsOfUnstructured(obj *unstructured.Unstructured) []metav1.Condition {
	items, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
	if err != nil {
		return nil
	}
	var all []metav1.Condition
	for _, item := range items {
		data, err := json.Marshal(item)
		var c metav1.Condition
		if err == nil && json.Unmarshal(data, &c) == nil {
			all = append(all, c)
		}
	}
	return all
}

// jobIs reports whether a condition of the Job is true.
func jobIs(job *batchv1.Job, t batchv1.JobConditionType) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
