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
	topOwnerRef
	state ownerState
	// why says in words for users why the owner cannot be read.
	why string
	// deleting is true if the owner is being deleted or is presumed gone. suspended is true if it
	// creates no pods for now.
	deleting, suspended bool
	ending
	// reportsEnd is true if the status of this kind reports an end.
	reportsEnd bool
	// waitingSince is the time at which the owner was created or last resumed. It is zero while the
	// owner is suspended, and for kinds without such a time.
	waitingSince time.Time
	// size is the number of pods that the owner wants from this scheduler. otherSchedulers says which
	// pods it wants from others (see group.OtherSchedulers).
	size            group.Size
	otherSchedulers string
	// templates are the owner's templates, if it makes some pods only after others. See group.Templates.
	templates []group.Template
	spec      ownerSpec
	// unitOf is the name of the LeaderWorkerSet if the owner is one of its units.
	unitOf  string
	invalid string
}

// ownerSpec is what else is read of the spec of an owner.
type ownerSpec struct {
	// nativeSizes has the sizes of the native PodGroups that pod templates of the owner name. Pods
	// of these templates do not count in the owner's size. See group.NativeSizes.
	nativeSizes map[string]group.Size
	// labelled are the pod templates of the owner that are in no podOwner.
	labelled []group.LabelledTemplate
}

// An ownerState says how much is known about an owner.
type ownerState int

const (
	// readable means that the owner was read.
	readable ownerState = iota
	// unsized means that the kind gives no size, so the owner was not read.
	unsized
	// missing means that the owner does not exist any more.
	missing
	// unreadable means that the owner cannot be read, for instance for lack of permission.
	unreadable
)

// String names the owner for users.
func (top topOwner) String() string {
	if top.unitOf != "" {
		return fmt.Sprintf("unit %s of %s %s", top.owner.Name, top.owner.Kind, top.unitOf)
	}
	return top.owner.Kind + " " + top.owner.Name
}

// hasEnded reports whether the owner has ended, so that it creates no more pods.
func (top topOwner) hasEnded() bool { return top.done || top.failed }

// isLive reports whether the owner exists and is not being deleted. Only then may a PodGroup refer to it.
func (top topOwner) isLive() bool { return top.state != missing && !top.deleting }

// topOwnerOf returns the topOwner for a podOwner that has no controller.
func topOwnerOf(p podOwner) topOwner {
	top := topOwner{topOwnerRef: topOwnerRef{p.ref, p.owner()}, deleting: p.GetDeletionTimestamp() != nil, suspended: p.idle()}
	size, err := p.size()
	top.size = size
	if err != nil {
		top.invalid = err.Error()
	}
	if name := group.NativePodGroupOf(&p.template.Spec); name != "" {
		top.spec.nativeSizes = map[string]group.Size{name: size}
	}
	if p.job != nil {
		top.reportsEnd = true
		for _, c := range conditionsOf(p.job) {
			if c.Status == metav1.ConditionTrue {
				top.add(c, string(batchv1.JobComplete), string(batchv1.JobFailed))
			}
		}
		top.suspended = top.suspended || p.job.Spec.Suspend != nil && *p.job.Spec.Suspend
		// The conditions of a Job show a little later than its spec that it was resumed.
		if !jobIs(p.job, batchv1.JobSuspended) {
			top.waitingSince = waitsSince(p.job.CreationTimestamp.Time, conditionsOf(p.job))
		}
	}
	return top
}

// conditionsOf converts a Job's conditions to the type of other kinds.
func conditionsOf(job *batchv1.Job) []metav1.Condition {
	var all []metav1.Condition
	for _, c := range job.Status.Conditions {
		all = append(all, metav1.Condition{Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime})
	}
	return all
}

// suspendedCondition is the type of the condition that Jobs, JobSets
// and the kinds of Kubeflow have once they have been suspended.
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

// topOwnerOfUnstructured returns the topOwner for an object of a kind that is not watched. Its size
// has the pods of the scheduler. It leaves out fields that cannot be parsed.
func topOwnerOfUnstructured(ref metav1.OwnerReference, obj *unstructured.Unstructured, scheduler string) (topOwner, error) {
	top := topOwner{topOwnerRef: topOwnerRef{ref, group.OwnerOf(ref)}, deleting: obj.GetDeletionTimestamp() != nil}
	spec, err := json.Marshal(obj.Object["spec"])
	if err != nil {
		return top, fmt.Errorf("encode the spec of %s %s: %w", ref.Kind, ref.Name, err)
	}
	if top.size, err = group.DefaultSize(top.owner, spec, scheduler); err != nil {
		top.invalid = err.Error()
	}
	if top.templates, err = group.Templates(top.owner, obj.GetAnnotations(), spec, scheduler); err != nil {
		top.invalid = err.Error()
	}
	if top.templates != nil && top.size.Min > 0 {
		top.size.Min = firstStage(top.templates, nil)
	}
	if top.spec.nativeSizes, err = group.NativeSizes(top.owner, obj.GetAnnotations(), spec, scheduler); err != nil {
		top.invalid = err.Error()
	}
	top.spec.labelled = group.LabelledTemplates(top.owner, spec, scheduler)
	top.otherSchedulers = clip(group.OtherSchedulers(top.owner, spec, scheduler))
	life := group.KindOf(top.owner).Lifecycle
	if life != nil && life.SuspendPath != nil {
		// A suspend field that is not a boolean counts as false.
		top.suspended, _, _ = unstructured.NestedBool(obj.Object, append([]string{"spec"}, life.SuspendPath...)...)
	}
	if life == nil || life.Endless {
		return top, nil
	}
	top.reportsEnd = true
	conditions := conditionsOfUnstructured(obj)
	paused := false
	for _, c := range conditions {
		if c.Status != metav1.ConditionTrue {
			continue
		}
		top.add(c, life.Completed, life.Failed)
		paused = paused || c.Type == suspendedCondition
	}
	if !paused {
		top.waitingSince = waitsSince(obj.GetCreationTimestamp().Time, conditions)
	}
	return top, nil
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
