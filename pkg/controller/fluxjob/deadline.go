package fluxjob

import (
	"math"
	"time"

	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/fsd"
	"github.com/flux-k8s/fluence/pkg/group"
)

// While a Job runs, its activeDeadlineSeconds are those of its queue. group.DeadlineAnnotation, which is written together with
// them, has the Job's own: they bound what is set, and count again when the Job waits again.

// ownDeadline returns the deadline in seconds that is the workload's own. It is nil if there is none.
func (w *workload) ownDeadline() *int64 { return group.OwnDeadline(w.deadline, w.deadlineNote) }

// granted returns for how long the room of an allocation is there for the job, without the grace of its queue. It returns
// 0 if the room has no known end.
func granted(a *v1alpha1.JobAllocation, queue *v1alpha1.Queue) time.Duration {
	if a == nil || a.End == nil {
		return 0
	}
	d := a.End.Sub(a.At.Time)
	if queue != nil {
		d -= queue.GracePeriod()
	}
	return max(d, time.Second)
}

// least returns the smaller of two bounds. 0 bounds nothing.
func least(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// releaseDeadline returns the deadline in seconds with which a workload is let go: its own, or less if its time in the queue is less. It
// is nil if neither bounds it. The allocation bounds it too: the duration may have been raised since it was made.
func (w *workload) releaseDeadline(fj *v1alpha1.FluxJob, queue *v1alpha1.Queue) *int64 {
	limit, err := v1alpha1.DurationOf(&fj.Spec, queue)
	if err != nil {
		limit = 0 // the job was not valid, and was edited as it was admitted
	}
	return leastSeconds(w.ownDeadline(), least(limit, granted(fj.Status.Allocation, queue)), w.isJob())
}

// runningDeadline returns the deadline in seconds of a workload that runs. The duration of the FluxJob counts as soon as it is less than
// what is set. More counts once the scheduler has moved the end of the allocation. Without a duration the deadline
// stays that of the release.
func (w *workload) runningDeadline(fj *v1alpha1.FluxJob, queue *v1alpha1.Queue) *int64 {
	_, set, has := group.ParseDeadlineNote(w.deadlineNote)
	if !w.isJob() {
		set, has = ptr.Deref(w.deadline, 0), w.deadline != nil
	}
	limit := time.Duration(0)
	if has {
		limit = inSeconds(set)
	}
	asked, err := fsd.ParseLimit("spec.duration", fj.Spec.Duration)
	room := granted(fj.Status.Allocation, queue)
	switch {
	case err != nil || fj.Spec.Duration == "":
	case asked != 0 && (limit == 0 || asked < limit):
		limit = asked
	case room == 0 || asked != 0 && roundUp(asked) <= roundUp(room):
		limit = asked
	}
	// Users may write the deadline and its note, but not the allocation.
	if room > 0 && (limit == 0 || limit > room) {
		limit = room
	}
	return leastSeconds(w.ownDeadline(), limit, w.isJob())
}

// roundUp returns a duration in whole seconds.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// maxSeconds are a hundred years, the longest time limit.
const maxSeconds = 100 * 365 * 24 * 60 * 60

// inSeconds returns a number of seconds as a duration, of which maxSeconds are the most.
func inSeconds(n int64) time.Duration { return time.Duration(min(n, maxSeconds)) * time.Second }

// leastSeconds returns the smaller of a deadline and a limit, in seconds. A limit of 0 bounds nothing. The deadline of a pod
// is an int32.
func leastSeconds(own *int64, limit time.Duration, isJob bool) *int64 {
	if limit == 0 {
		return own
	}
	n := int64(roundUp(limit) / time.Second)
	if own != nil {
		n = min(n, *own)
	}
	if !isJob {
		n = min(n, math.MaxInt32)
	}
	return &n
}
