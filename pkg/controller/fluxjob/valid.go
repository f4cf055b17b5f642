package fluxjob

import (
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// validity returns the condition Valid of a job that has not started: whether it can run as it is, in its queue. queue is
// nil if there is no such queue, of which the scheduler tells.
func (o *observation) validity(fj *v1alpha1.FluxJob, durationErr, requestErr error) metav1.Condition {
	duration, err := v1alpha1.DurationOf(&fj.Spec, o.queue)
	because, text := v1alpha1.ReasonValid, ""
	switch {
	case requestErr != nil:
		because, text = v1alpha1.ReasonInvalidJobspec, requestErr.Error()
	case o.noClass != "":
		because, text = v1alpha1.ReasonNoPriorityClass, fmt.Sprintf("priorityClassName: %q: there is no such PriorityClass, so no pod can be made", o.noClass)
	case durationErr != nil && fj.Spec.Duration == "":
		because, text = v1alpha1.ReasonInvalidDuration, durationErr.Error()
	case err != nil:
		because, text = v1alpha1.ReasonInvalidDuration, err.Error()
	case o.queue != nil:
		because, text = overLimit(&fj.Spec, duration, o.queue)
	}
	c := metav1.Condition{Type: v1alpha1.ConditionValid, Status: metav1.ConditionTrue, Reason: because, Message: clip(text), ObservedGeneration: fj.Generation}
	if because != v1alpha1.ReasonValid {
		c.Status = metav1.ConditionFalse
	}
	return c
}

// overLimit returns the reason and the text if a job exceeds a limit of its queue.
func overLimit(s *v1alpha1.FluxJobSpec, duration time.Duration, queue *v1alpha1.Queue) (because, text string) {
	limits := &queue.Spec.Limits
	// Of a limit that is wrong the condition Ready of the Queue tells.
	longest, err := queue.LongestDuration()
	switch {
	case err == nil && longest != 0 && duration == 0:
		return v1alpha1.ReasonNoDuration, fmt.Sprintf("Queue %s wants a duration of each job, at most %s: set the annotation fluence.flux-framework.org/duration, or spec.duration", queue.Name, limits.Duration)
	case err == nil && longest != 0 && duration > longest:
		return v1alpha1.ReasonDurationOverLimit, fmt.Sprintf("duration %s: a job of Queue %s may take at most %s", shown(s.Duration, queue.Spec.Defaults.Duration), queue.Name, limits.Duration)
	}
	most := &limits.JobSize.Max
	if most.Pods != nil && s.Pods > *most.Pods {
		return v1alpha1.ReasonTooLarge, fmt.Sprintf("%d pods: a job of Queue %s may have at most %d", s.Pods, queue.Name, *most.Pods)
	}
	for _, name := range slices.Sorted(maps.Keys(most.Requests)) {
		limit, sum := most.Requests[name], times(s.Requests[name], s.Pods)
		if sum.Cmp(limit) > 0 {
			return v1alpha1.ReasonTooLarge, fmt.Sprintf("%s of %s: a job of Queue %s may request at most %s", sum.String(), name, queue.Name, limit.String())
		}
	}
	return v1alpha1.ReasonValid, ""
}

// shown returns the first of two texts that is not empty.
func shown(text, or string) string {
	if text == "" {
		return or
	}
	return text
}

// times returns a quantity n times.
func times(q apiresource.Quantity, n int32) apiresource.Quantity {
	sum := q.DeepCopy()
	sum.Mul(int64(n))
	return sum
}

// maxMessage is the largest number of bytes of the message of a condition or an event.
const maxMessage = 1000

// clip cuts a text to maxMessage bytes.
func clip(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	end := maxMessage
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// sameCondition reports whether two conditions say the same.
func sameCondition(a *metav1.Condition, b metav1.Condition) bool {
	return a != nil && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && a.ObservedGeneration == b.ObservedGeneration
}
