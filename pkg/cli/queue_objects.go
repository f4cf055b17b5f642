package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/fsd"
)

// listQueues lists the Queues of the cluster.
func (r *reader) listQueues() list {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		l := &v1alpha1.QueueList{}
		req := r.queued.Get().Resource(v1alpha1.Queues.Resource).Param("limit", fmt.Sprint(o.Limit)).Param("continue", o.Continue)
		return l, req.Do(ctx).Into(l)
	}
}

// listFluxJobs lists the FluxJobs of a namespace, or all if it is empty.
func (r *reader) listFluxJobs(namespace string) list {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		l := &v1alpha1.FluxJobList{}
		req := r.queued.Get().Resource(v1alpha1.FluxJobs.Resource).Param("limit", fmt.Sprint(o.Limit)).Param("continue", o.Continue)
		if namespace != "" {
			req = req.Namespace(namespace)
		}
		err := req.Do(ctx).Into(l)
		for i := range l.Items {
			// It is the largest part, and not shown.
			l.Items[i].Spec.Jobspec = ""
		}
		return l, err
	}
}

// readQueues reads the Queues of the cluster.
func (r *reader) readQueues(ctx context.Context) ([]*v1alpha1.Queue, error) {
	objects, err := listAll(ctx, v1alpha1.Queues.GroupResource().String(), r.listQueues())
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the API server does not serve Queues: install the CRD %s: %w", v1alpha1.QueueCRDName, err)
	}
	return ofType[*v1alpha1.Queue](objects), err
}

// readFluxJobs reads the FluxJobs of a namespace, or all if it is empty.
func (r *reader) readFluxJobs(ctx context.Context, namespace string) ([]*v1alpha1.FluxJob, error) {
	objects, err := listAll(ctx, v1alpha1.FluxJobs.GroupResource().String(), r.listFluxJobs(namespace))
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the API server does not serve FluxJobs: install the CRD %s: %w", v1alpha1.FluxJobCRDName, err)
	}
	return ofType[*v1alpha1.FluxJob](objects), err
}

// readQueuedJobs reads the FluxJobs of all namespaces, which wait in the same queues. If the user may not, it reads those of
// the reader's namespace alone, and whole is false.
// It reads them once.
func (r *reader) readQueuedJobs(ctx context.Context) (jobs []*v1alpha1.FluxJob, whole bool, err error) {
	if r.jobs == nil {
		all := &queuedJobs{whole: true}
		all.list, all.err = r.readFluxJobs(ctx, "")
		if r.namespace != "" && apierrors.IsForbidden(all.err) {
			all.whole = false
			all.list, all.err = r.readFluxJobs(ctx, r.namespace)
		}
		r.jobs = all
	}
	return r.jobs.list, r.jobs.whole, r.jobs.err
}

// queuedJobs are FluxJobs that were read, of all namespaces if whole is true, or the error.
type queuedJobs struct {
	list  []*v1alpha1.FluxJob
	whole bool
	err   error
}

// A place is the place of a job in its queue, counted from 1, out of the number of jobs that have one.
type place struct{ at, of int }

// placesOf returns the places of jobs, by the UIDs of the FluxJobs. Jobs that do not wait for their turn have none.
func placesOf(jobs []*v1alpha1.FluxJob) map[types.UID]place {
	waiting := map[string][]*v1alpha1.FluxJob{}
	for _, fj := range jobs {
		if inLine(fj) {
			waiting[fj.Spec.Queue] = append(waiting[fj.Spec.Queue], fj)
		}
	}
	places := map[types.UID]place{}
	for _, line := range waiting {
		slices.SortFunc(line, compareRanks)
		for i, fj := range line {
			places[fj.UID] = place{i + 1, len(line)}
		}
	}
	return places
}

// inLine reports whether a job waits for its turn: the queue has taken it, and nothing has to be changed before it may start.
func inLine(fj *v1alpha1.FluxJob) bool {
	if fj.Status.Phase != v1alpha1.Waiting || fj.Spec.Held || fj.DeletionTimestamp != nil {
		return false
	}
	why, _, _ := whyQueued(fj)
	return !slices.Contains([]string{v1alpha1.ReasonNeverFits, v1alpha1.ReasonUnplaceable, v1alpha1.ReasonNotAllowed, v1alpha1.ReasonNoQueue}, why) && !isInvalid(fj)
}

// compareRanks orders the jobs of a queue as the scheduler does: the higher priority, the earlier creation and the lesser
// namespace and name come first.
func compareRanks(a, b *v1alpha1.FluxJob) int {
	return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), queuedSince(a).Compare(queuedSince(b)),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// queuedSince returns since when a job is in its queue, to the microsecond if that is known.
func queuedSince(fj *v1alpha1.FluxJob) time.Time {
	if fj.Status.CreationTime != nil {
		return fj.Status.CreationTime.Time
	}
	return fj.CreationTimestamp.Time
}

// isInvalid reports whether a job cannot run as it is. A longer time limit that does not count is no such fault.
func isInvalid(fj *v1alpha1.FluxJob) bool {
	c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionValid)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonWouldDelay
}

// whyQueued returns why a job waits, and since when that is so: what is wrong with it, that it is held, or what the scheduler
// says. All are empty if nothing is known, or if it does not wait.
func whyQueued(fj *v1alpha1.FluxJob) (why, message string, since metav1.Time) {
	switch fj.Status.Phase {
	case v1alpha1.Ready, v1alpha1.Running, v1alpha1.Finished:
		return "", "", metav1.Time{}
	default: // it waits
	}
	valid := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionValid)
	admitted := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionAdmitted)
	switch {
	case isInvalid(fj):
		return valid.Reason, valid.Message, valid.LastTransitionTime
	case fj.Spec.Held && (admitted == nil || admitted.Reason != v1alpha1.ReasonHeld):
		return v1alpha1.ReasonHeld, "spec.held is true: it waits until somebody releases it", metav1.Time{}
	case admitted != nil && admitted.Status == metav1.ConditionFalse:
		return admitted.Reason, admitted.Message, admitted.LastTransitionTime
	}
	return "", "", metav1.Time{}
}

// timeLimit returns the time limit of a job as it was written: its own, or that of its queue, which may be nil. It is empty
// if there is none, or if it is not known.
func timeLimit(fj *v1alpha1.FluxJob, queue *v1alpha1.Queue) string {
	if fj.Spec.Duration == "" && queue != nil {
		return queue.Spec.Defaults.Duration
	}
	return fj.Spec.Duration
}

// limitThatHolds returns the time limit of a job with room. That is the one for which it has its room if it asks for a longer one, which
// the scheduler grants only within the limit of the queue. why and message say of one that is over it; both are empty otherwise.
func limitThatHolds(fj *v1alpha1.FluxJob, queue *v1alpha1.Queue) (limit, why, message string) {
	limit = timeLimit(fj, queue)
	a := fj.Status.Allocation
	asked, err := fsd.ParseLimit("spec.duration", fj.Spec.Duration)
	if fj.Spec.Duration == "" || err != nil || a.End == nil {
		return limit, "", ""
	}
	if queue == nil {
		queue = &v1alpha1.Queue{}
	}
	granted := max(time.Second, a.End.Sub(a.At.Time)-queue.GracePeriod())
	// The end is in whole seconds.
	if asked != 0 && asked <= granted+time.Second {
		return limit, "", ""
	}
	limit = shortDuration(granted)
	if longest, err := queue.LongestDuration(); err == nil && longest != 0 && (asked == 0 || asked > longest) {
		return limit, v1alpha1.ReasonDurationOverLimit, fmt.Sprintf("spec.duration: %q: Queue %s allows at most %s: the time limit stays %s", fj.Spec.Duration, queue.Name, queue.Spec.Limits.Duration, limit)
	}
	return limit, "", ""
}

// shortDuration writes a duration in whole seconds without parts that are zero, as a Flux Standard Duration if it has one part.
func shortDuration(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// byQueueName returns Queues by their names.
func byQueueName(queues []*v1alpha1.Queue) map[string]*v1alpha1.Queue {
	named := make(map[string]*v1alpha1.Queue, len(queues))
	for _, q := range queues {
		named[q.Name] = q
	}
	return named
}
