package cli

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/fluence"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/simulate"
)

// mostAhead is how many jobs before one in a queue are simulated.
const mostAhead = 200

// foreseen are the reasons of jobs that wait for nothing but room.
var foreseen = []string{"", waitingForTurn, v1alpha1.ReasonNotItsTurn, v1alpha1.ReasonNoRoom, v1alpha1.ReasonPromised, v1alpha1.ReasonRequeued, v1alpha1.ReasonPreempted}

// whenQueued answers when a job starts that waits in a queue. What it is promised counts. Else the scheduler's own code finds the
// time, as if the jobs before it were groups that are promised room in their turn.
func (o *options) whenQueued(ctx context.Context, r *reader, s *whyAnswer) (whenAnswer, error) {
	a := s.whenNotSimulated()
	fj := s.fluxJob
	switch p := fj.Status.Promise; {
	case fj.Status.Phase == v1alpha1.Ready:
		a.Starts, a.Reason, a.Message = true, "", ""
		return a, nil
	case p != nil && s.WaitingFor == v1alpha1.ReasonPromised:
		a.From, a.Promise, a.Reason, a.Message = p.At, p, "", ""
		return a, nil
	case !slices.Contains(foreseen, s.WaitingFor):
		return a, nil
	}
	jobs, whole, err := r.readQueuedJobs(ctx)
	if err != nil {
		return a, err
	}
	if !whole {
		a.Message = "you may not list the fluxjobs of all namespaces, which wait in the same queue: " + a.Message
		return a, nil
	}
	queues, err := r.readQueues(ctx)
	if apierrors.IsForbidden(err) {
		a.Message = "you may not list the queues, whose rules decide when it starts: " + a.Message
		return a, nil
	}
	if err != nil {
		return a, err
	}
	named := byQueueName(queues)
	ahead, ok := jobsUpTo(fj, jobs, named)
	if !ok {
		a.Message = fmt.Sprintf("more than %d jobs come before it, too many to foresee: %s", mostAhead, a.Message)
		return a, nil
	}
	start, err := o.foresee(ctx, r, fj, ahead)
	if err != nil || start == nil {
		return a, err
	}
	found := answersOf([]simulate.Start{*start})[0]
	found.Kind, found.Name, found.queued = a.Kind, a.Name, true
	found.addLimit(fj, jobs, named[fj.Spec.Queue])
	if !found.From.IsZero() {
		found.Reason, found.Message = a.Reason, a.Message // nothing is promised to it
	}
	return found, nil
}

// jobsUpTo returns the jobs that are let go before a job, and the job itself: those that have room, and those that wait for
// their turn and come before it, in any queue. It returns false if these are too many.
func jobsUpTo(fj *v1alpha1.FluxJob, jobs []*v1alpha1.FluxJob, queues map[string]*v1alpha1.Queue) ([]simulate.QueuedJob, bool) {
	waiting := 0
	var ahead []simulate.QueuedJob
	for _, other := range jobs {
		switch {
		case other.UID == fj.UID, other.Status.Phase == v1alpha1.Ready:
		case inLine(other) && compareQueues(other, fj, queues) < 0:
			waiting++
		default:
			continue
		}
		ahead = append(ahead, simulate.QueuedJob{FluxJob: other, Queue: queues[other.Spec.Queue]})
	}
	return ahead, waiting <= mostAhead
}

// compareQueues orders jobs of any queues: those of the queue of the higher priority come first.
func compareQueues(a, b *v1alpha1.FluxJob, queues map[string]*v1alpha1.Queue) int {
	priority := func(fj *v1alpha1.FluxJob) int32 {
		if q := queues[fj.Spec.Queue]; q != nil {
			return q.Spec.Priority
		}
		return 0
	}
	if x, y := priority(a), priority(b); x != y {
		return int(y) - int(x)
	}
	return compareRanks(a, b)
}

// foresee simulates when a job starts. It returns nil if the job's workload cannot be read.
func (o *options) foresee(ctx context.Context, r *reader, fj *v1alpha1.FluxJob, ahead []simulate.QueuedJob) (*simulate.Start, error) {
	configuration, err := o.configuration(ctx, r)
	if err != nil {
		return nil, err
	}
	cluster, err := r.readCluster(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.checkLevels(ofType[*corev1.Node](cluster.Objects)); err != nil {
		return nil, err
	}
	// Queues promise room whatever the scheduler promises to other groups.
	if configuration, err = configuration.WithDepth(fluence.MaxPromises); err != nil {
		return nil, err
	}
	cluster, pods := cluster.LetGo(ahead, o.now())
	starts, err := simulate.When(ctx, cluster, configuration, pods[fj.UID], o.now())
	if err != nil || len(starts) == 0 {
		return nil, err
	}
	return &starts[0], nil
}

// noteQueues adds a note if jobs in queues are promised room: what is simulated for groups in no queue does not know that. Without
// the CRD, or the right to list FluxJobs, there is none.
func (r *reader) noteQueues(ctx context.Context) {
	jobs, _, err := r.readQueuedJobs(ctx)
	var first *v1alpha1.JobPromise
	for _, fj := range jobs {
		if p := fj.Status.Promise; p != nil && (first == nil || p.At.Before(&first.At)) {
			first = p
		}
	}
	if err == nil && first != nil {
		r.notes = append(r.notes, fmt.Sprintf("jobs in queues are promised room from %s on, which is not known here: a group that does not end by then may have to leave it to them", reason.Time(first.At.Time, r.now.Time)))
	}
}

// whenPromised says in words from when a job is promised room.
func (o *options) whenPromised(a *whenAnswer) string {
	text := fmt.Sprintf("promised %s from %s (in %s)", reason.Plural(int(a.Promise.Nodes), "node"), reason.Time(a.From.Time, o.now()), o.until(a.From))
	if a.Promise.Why != "" {
		text += "; it was earlier before: " + printable(a.Promise.Why)
	}
	return text
}

// The assumptions of answers about jobs in queues.
const (
	promiseAssumes = `A promise may become earlier. It becomes later only for a reason that its message names, such as a node that is lost.`
	queueAssumes   = `This assumes that each job runs until its time limit, that jobs start in their order, that no limit of the queue
is reached, and that nothing of a higher priority comes. A job often starts earlier.`
)
