package admission

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/queue"
)

// whyTooMuch returns why a job may not run in a queue because of what it asks for alone. asked is its time limit as it was written.
// Both are empty if it may.
func (q *jobQueue) whyTooMuch(asked string, duration time.Duration, pods int64, requests map[string]int64) (reason, message string) {
	name, limits := q.object.Name, &q.object.Spec.Limits
	switch {
	case q.maxDuration > 0 && duration == 0:
		return v1alpha1.ReasonNoDuration, fmt.Sprintf("Queue %s takes only jobs with a time limit, of at most %s: set spec.duration", name, limits.Duration)
	case q.maxDuration > 0 && duration > q.maxDuration:
		return v1alpha1.ReasonDurationOverLimit, fmt.Sprintf("spec.duration: %q: Queue %s allows at most %s", asked, name, limits.Duration)
	}
	if most := limits.JobSize.Max.Pods; most != nil && pods > int64(*most) {
		return v1alpha1.ReasonTooLarge, fmt.Sprintf("spec.pods: %d: Queue %s allows at most %d", pods, name, *most)
	}
	for resource, most := range sumOf(limits.JobSize.Max.Requests, 1) {
		if requests[resource] > most {
			return v1alpha1.ReasonTooLarge, fmt.Sprintf("the pods request %s together: Queue %s allows at most %s", amountOf(resource, requests[resource]), name, amountOf(resource, most))
		}
	}
	return "", ""
}

// OverLimit returns which limit of a queue keeps a job from starting beside some jobs, as the condition Admitted says it: a limit of
// the size of one job, or one of what runs, or that the queue starts none. Jobs of other queues do not count. Both are empty if
// no limit does. Of the jobs only the key and the spec are read.
func OverLimit(of *v1alpha1.Queue, beside []*v1alpha1.FluxJob, job *v1alpha1.FluxJob) (reason, message string) {
	q := readQueue(of)
	next := limited(job, q)
	if reason, message = q.whyTooMuch(job.Spec.Duration, next.Duration, next.Pods, next.Requests); reason != "" {
		return reason, message
	}
	core := queue.New(queue.Config{})
	core.PutQueue(q.core())
	for _, fj := range beside {
		core.PutRunning(limited(fj, q))
	}
	core.PutWaiting(next)
	switch s, _ := core.State(next.Key); s.Reason {
	case queue.LimitReached, queue.QueueStopped:
		return describe(s, of.Name, q, "", time.Time{})
	default:
		return "", ""
	}
}

// limited returns what of a job counts in the limits of its queue.
func limited(fj *v1alpha1.FluxJob, q *jobQueue) queue.Job {
	duration, err := v1alpha1.DurationOf(&fj.Spec, q.object)
	if err != nil {
		duration = 0
	}
	return queue.Job{
		Key: types.NamespacedName{Namespace: fj.Namespace, Name: fj.Name}, Queue: fj.Spec.Queue, Pods: int64(fj.Spec.Pods),
		Requests: sumOf(fj.Spec.Requests, int64(fj.Spec.Pods)), Duration: duration,
	}
}
