package fluxjob

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// withValid returns a FluxJob with the condition Valid, and with its first phase and its creation time if it has none.
func withValid(fj *v1alpha1.FluxJob, valid metav1.Condition, o *observation) *v1alpha1.FluxJob {
	fj = fj.DeepCopy()
	s := &fj.Status
	if s.Phase == "" {
		s.Phase = v1alpha1.Requested
	}
	if s.CreationTime == nil {
		s.CreationTime = &metav1.MicroTime{Time: o.workload.waits(o.now)}
	}
	set(fj, o, valid)
	return fj
}

// takenBack returns a FluxJob that has lost its allocation and waits again. because is the reason of the condition Admitted,
// released that of Released.
func takenBack(fj *v1alpha1.FluxJob, o *observation, because, released, text string) *v1alpha1.FluxJob {
	fj = fj.DeepCopy()
	s := &fj.Status
	s.Phase, s.Allocation, s.Started = v1alpha1.Waiting, nil, nil
	set(fj, o, metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: because, Message: text})
	set(fj, o, metav1.Condition{Type: v1alpha1.ConditionReleased, Status: metav1.ConditionFalse, Reason: released, Message: text})
	return fj
}

// released returns a FluxJob whose workload was let go.
func released(fj *v1alpha1.FluxJob, o *observation) *v1alpha1.FluxJob {
	fj = fj.DeepCopy()
	fj.Status.Phase, fj.Status.Started = v1alpha1.Running, &metav1.Time{Time: o.now}
	fj.Status.Promise = nil
	set(fj, o, metav1.Condition{Type: v1alpha1.ConditionReleased, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReleased, Message: releasedText(o)})
	return fj
}

// refusedOf returns a FluxJob that says why its workload is not let go, or suspended. It returns nil if there is none, if it says so, and
// if its condition Released says how the job came to run, or to be suspended: decide needs that.
func refusedOf(o *observation, text string) *v1alpha1.FluxJob {
	c := metav1.Condition{Type: v1alpha1.ConditionReleased, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonWriteRefused, Message: text}
	if o.fluxJob == nil {
		return nil
	}
	c.ObservedGeneration = o.fluxJob.Generation
	was := meta.FindStatusCondition(o.fluxJob.Status.Conditions, v1alpha1.ConditionReleased)
	if sameCondition(was, c) || was != nil && (was.Status == metav1.ConditionTrue || was.Reason == v1alpha1.ReasonSuspendedByUser) {
		return nil
	}
	fj := o.fluxJob.DeepCopy()
	set(fj, o, c)
	return fj
}

// clearRefusal removes what refusedOf has said. It returns false if that is not there.
func clearRefusal(fj *v1alpha1.FluxJob) bool {
	c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionReleased)
	return c != nil && c.Reason == v1alpha1.ReasonWriteRefused && meta.RemoveStatusCondition(&fj.Status.Conditions, v1alpha1.ConditionReleased)
}

// releasedText says what was let go.
func releasedText(o *observation) string {
	return fmt.Sprintf("the %s was let go with room for %s", o.workload.owner.Kind, reason.Plural(int(o.fluxJob.Spec.Pods), "pod"))
}

// adopted returns a FluxJob for a Job that has pods on nodes: it runs, and has the room of these pods.
func adopted(fj *v1alpha1.FluxJob, o *observation, seats []v1alpha1.Seats) *v1alpha1.FluxJob {
	const text = "the Job had pods on nodes before it was in the queue"
	fj = fj.DeepCopy()
	s := &fj.Status
	s.Phase, s.Started = v1alpha1.Running, &metav1.Time{Time: o.now}
	s.CreationTime = &metav1.MicroTime{Time: o.workload.waits(o.now)}
	s.Allocation = &v1alpha1.JobAllocation{Attempt: 1, At: metav1.MicroTime{Time: o.now}, Seats: seats}
	set(fj, o, metav1.Condition{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAdmitted, Message: text})
	set(fj, o, metav1.Condition{Type: v1alpha1.ConditionReleased, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRunsAlready, Message: text})
	return fj
}

// finished returns a FluxJob whose workload has ended, or that is being deleted.
func finished(fj *v1alpha1.FluxJob, o *observation, e ending) *v1alpha1.FluxJob {
	fj = fj.DeepCopy()
	if e.at.IsZero() {
		e.at = o.now
	}
	s := &fj.Status
	s.Phase, s.Result, s.Ended, s.Promise = v1alpha1.Finished, e.result, &metav1.Time{Time: e.at}, nil
	if s.CreationTime == nil && o.workload != nil {
		s.CreationTime = &metav1.MicroTime{Time: o.workload.waits(o.now)}
	}
	clearRefusal(fj)
	set(fj, o, metav1.Condition{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue, Reason: string(e.result), Message: clip(e.text)})
	return fj
}

// set sets a condition at the time of the observation.
func set(fj *v1alpha1.FluxJob, o *observation, c metav1.Condition) {
	c.ObservedGeneration, c.LastTransitionTime = fj.Generation, metav1.NewTime(o.now)
	meta.SetStatusCondition(&fj.Status.Conditions, c)
}
