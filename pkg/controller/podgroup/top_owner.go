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

// leaderWorkerSet is a kind whose units are groups of their own.
var leaderWorkerSet = schema.GroupKind{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}

// A workload is an object at the top of those that control members of a group.
type topOwner struct {
	topRef
	lookup lookup
	// why says in words fit for a user why it is unread.
	why string
	// leaving says that it is being deleted or seems to be gone, suspended that it makes no pods for
	// now, done and failed that it makes no more.
	leaving, suspended, done, failed bool
	// ends says that its work has an end, which it tells itself.
	ends bool
	// since is when it began to ask for its pods, zero if it does not matter.
	since time.Time
	// size is how many pods it asks for, and invalid what is wrong with that.
	size    group.Size
	invalid string
}

// A standing is what is known of a workload.
type lookup int

const (
	// readable: it was read.
	readable lookup = iota
	// unsized: its kind says nothing of sizes, and was not read.
	unsized
	// missing: it does not exist any more.
	missing
	// unreadable: it may not or cannot be read.
	unreadable
)

// hasEnded says that it makes no more pods.
func (w topOwner) hasEnded() bool { return w.done || w.failed }

// canOwn says that a PodGroup may refer to it.
func (w topOwner) canOwn() bool { return w.lookup != missing && !w.leaving }

// topOwnerOf reads a part that nothing else controls.
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
		// A Job that is resumed shows it in its conditions a little later.
		if !jobIs(p.job, batchv1.JobSuspended) {
			w.since = waitsSince(p.job.CreationTimestamp.Time, conditionsOf(p.job))
		}
	}
	return w
}

// conditionsOf returns a Job's conditions as those of other kinds are read.
func conditionsOf(job *batchv1.Job) []metav1.Condition {
	var all []metav1.Condition
	for _, c := range job.Status.Conditions {
		all = append(all, metav1.Condition{Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), LastTransitionTime: c.LastTransitionTime})
	}
	return all
}

// suspendedCondition is the type of the condition that Jobs, JobSets and MPIJobs
// have once they have been suspended.
const suspendedCondition = string(batchv1.JobSuspended)

// waitsSince is when a workload was made or, if that is later, resumed.
func waitsSince(made time.Time, conditions []metav1.Condition) time.Time {
	for _, c := range conditions {
		if c.Type == suspendedCondition && c.Status == metav1.ConditionFalse && c.LastTransitionTime.After(made) {
			made = c.LastTransitionTime.Time
		}
	}
	return made
}

// topOwnerOfUnstructured reads an object of a kind that is not watched, as far as it can be read. Such an
// object is read when it is needed: its kind need not be installed.
func topOwnerOfUnstructured(ref metav1.OwnerReference, obj *unstructured.Unstructured) (topOwner, error) {
	w := topOwner{topRef: topRef{ref, group.OwnerOf(ref)}, leaving: obj.GetDeletionTimestamp() != nil}
	spec, err := json.Marshal(obj.Object["spec"])
	if err != nil {
		return w, fmt.Errorf("encode the spec of %s %s: %w", ref.Kind, ref.Name, err)
	}
	if w.size, err = group.DefaultSize(w.owner, spec); err != nil {
		w.invalid = err.Error()
	}
	end := group.KindOf(w.owner).Ends
	if end == nil {
		return w, nil
	}
	w.ends = true
	// What cannot be read as a yes or no suspends nothing.
	w.suspended, _, _ = unstructured.NestedBool(obj.Object, append([]string{"spec"}, end.Suspend...)...)
	conditions := conditionsOfUnstructured(obj)
	paused := false
	for _, c := range conditions {
		if c.Status != metav1.ConditionTrue {
			continue
		}
		switch c.Type {
		case end.Done:
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

// conditionsOfUnstructured returns the conditions that can be read.
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

// jobIs says whether a condition of the Job is true.
func jobIs(job *batchv1.Job, t batchv1.JobConditionType) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == t {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
