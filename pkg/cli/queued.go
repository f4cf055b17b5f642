package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/fsd"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// waitingForFluxJob is the reason of a workload that is kept from starting, and has no FluxJob yet.
const waitingForFluxJob = "NoFluxJob"

// readJobsBeside reads the FluxJobs for a question about workloads, most of which are in no queue. It returns none if the API
// server does not serve them, and with a note if the user may not read them, which says what the answer lacks then.
func (r *reader) readJobsBeside(ctx context.Context, lacks string) ([]*v1alpha1.FluxJob, error) {
	read := func(ctx context.Context) ([]*v1alpha1.FluxJob, error) { return r.readFluxJobs(ctx, r.namespace) }
	if r.sharesJobs {
		read = func(ctx context.Context) ([]*v1alpha1.FluxJob, error) {
			jobs, _, err := r.readQueuedJobs(ctx)
			return slices.DeleteFunc(slices.Clone(jobs), func(fj *v1alpha1.FluxJob) bool { return r.namespace != "" && fj.Namespace != r.namespace }), err
		}
	}
	jobs, err := read(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		r.notes = append(r.notes, "you may not list fluxjobs: "+lacks)
		return nil, nil
	}
	return jobs, err
}

// addQueued adds to an answer what its FluxJob says. What the FluxJob says of a workload that has not started is the reason
// why it waits: the Job is only suspended, and the pod only gated, until its turn.
func (ns *namespace) addQueued(s *whyAnswer, jobs []*v1alpha1.FluxJob) {
	s.fluxJob = s.jobIn(jobs)
	fj := s.fluxJob
	if fj == nil {
		ns.addUnqueued(s)
		return
	}
	if !s.isQueued() {
		return
	}
	s.Waits, s.Hints, s.Decided = true, nil, metav1.Time{}
	s.WaitingFor, s.Message, s.Since = whyQueued(fj)
	switch {
	case fj.Status.Phase == v1alpha1.Ready:
		s.WaitingFor, s.Message = v1alpha1.ReasonAdmitted, "it has its room, and is about to start"
	case s.WaitingFor == "":
		s.WaitingFor, s.Message = waitingForTurn, "the scheduler has not looked at it yet"
	}
	if s.Pod != nil {
		s.Pod.Message = "" // what Kubernetes says of its gate
	}
}

// isQueued reports whether the answer is about a job that waits in a queue, or is about to start.
func (s *whyAnswer) isQueued() bool {
	return s.fluxJob != nil && s.fluxJob.Status.Phase != v1alpha1.Running && s.fluxJob.Status.Phase != v1alpha1.Finished && s.Status != statusTerminating && s.Bound == 0
}

// waitingForTurn is the reason of a job of which the scheduler has said nothing yet.
const waitingForTurn = "Queued"

// jobIn returns the FluxJob of the workload of an answer. It returns nil if there is none.
func (s *whyAnswer) jobIn(jobs []*v1alpha1.FluxJob) *v1alpha1.FluxJob {
	i := slices.IndexFunc(jobs, func(fj *v1alpha1.FluxJob) bool {
		w := fj.Spec.Workload
		switch {
		case fj.Namespace != s.Namespace:
			return false
		case s.podGroup != nil:
			// A FluxJob has the name of the PodGroup of the same workload.
			return fj.Name == s.podGroup.Name
		case len(s.members) > 0:
			ref := metav1.GetControllerOfNoCopy(s.members[0])
			return ref != nil && ref.UID == w.UID || s.members[0].UID == w.UID
		}
		return w.Kind == s.Kind && w.Name == s.Name
	})
	if i < 0 {
		return nil
	}
	return jobs[i]
}

// addUnqueued says of a workload that Fluence keeps from starting that it has no FluxJob.
func (ns *namespace) addUnqueued(s *whyAnswer) {
	held := slices.ContainsFunc(s.members, func(pod *corev1.Pod) bool {
		return waits(pod) && slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == v1alpha1.QueueGate })
	})
	for _, job := range ofType[*batchv1.Job](ns.owners) {
		_, byFluence := job.Annotations[v1alpha1.QueuedAnnotation]
		held = held || byFluence && suspended(job) && s.WaitingFor == reason.Suspended && s.isOf(job)
	}
	if held {
		s.Waits, s.WaitingFor = true, waitingForFluxJob
		s.Message = "it is kept from starting until its turn in a queue, and has no FluxJob: the controller makes it; kubectl fluence status shows whether it runs"
	}
}

// isOf reports whether the answer is about a Job.
func (s *whyAnswer) isOf(job *batchv1.Job) bool {
	if s.podGroup != nil {
		return slices.ContainsFunc(s.podGroup.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == job.UID })
	}
	return s.Kind == "Job" && s.Namespace == job.Namespace && s.Name == job.Name
}

// addJobs describes the FluxJobs of answers, with their places among all jobs of their queues.
func (r *reader) addJobs(ctx context.Context, answers []*whyAnswer) error {
	if !slices.ContainsFunc(answers, func(s *whyAnswer) bool { return s.fluxJob != nil }) {
		return nil
	}
	jobs, whole, err := r.readQueuedJobs(ctx)
	if err != nil {
		return err
	}
	queues, err := r.readQueues(ctx)
	hidden := apierrors.IsForbidden(err)
	if err != nil && !hidden && !apierrors.IsNotFound(err) {
		return err
	}
	named, places := byQueueName(queues), placesOf(jobs)
	for _, s := range answers {
		if fj := s.fluxJob; fj != nil {
			s.Job = new(summaryOfJob(fj, named[fj.Spec.Queue], places[fj.UID]))
			s.Job.hidden = hidden
			s.Job.keptByKubelet(s.members)
		}
	}
	if !whole && slices.ContainsFunc(answers, func(s *whyAnswer) bool { return s.Job != nil && s.Job.Position > 0 }) {
		r.notes = append(r.notes, placeInQueue(r.namespace))
	}
	return nil
}

// keptByKubelet corrects the time limit of a single pod that runs: Kubernetes refuses a longer one.
func (s *jobSummary) keptByKubelet(members []*corev1.Pod) {
	if s.Phase != string(v1alpha1.Running) || len(members) != 1 || s.Workload != "pod/"+members[0].Name || members[0].Spec.ActiveDeadlineSeconds == nil {
		return
	}
	kept := time.Duration(*members[0].Spec.ActiveDeadlineSeconds) * time.Second
	if asked, err := fsd.ParseLimit("spec.duration", s.Duration); err == nil && (asked == 0 || asked > kept) {
		asks := cmp.Or(s.Duration, "inf")
		s.Duration, s.Reason = shortDuration(kept), "PodDeadline"
		s.Message = fmt.Sprintf("spec.duration: %q: the deadline of a single pod cannot be made longer once it runs: the time limit stays %s", asks, s.Duration)
	}
}

// writeJob writes what is known of a job in a queue, below the name of its workload.
func (o *options) writeJob(w io.Writer, s *jobSummary) {
	p := s.printable()
	s = &p
	limit := "no time limit"
	if s.hidden && s.Duration == "" {
		limit = "the time limit of its queue, which you may not read"
	}
	if s.Duration != "" && !strings.HasPrefix(strings.ToLower(s.Duration), "inf") {
		limit = "time limit " + s.Duration
	}
	fmt.Fprintf(w, "  in queue %s: %s, %s, priority %d, %s\n", s.Queue, s.state(), reason.Plural(int(s.Pods), "pod"), s.Priority, limit)
	if s.Position > 0 {
		fmt.Fprintf(w, "  place %d of %d in the queue\n", s.Position, s.Queued)
	}
	if p := s.Promise; p != nil {
		fmt.Fprintf(w, "  promised %s from %s (in %s)\n", reason.Plural(int(p.Nodes), "node"), reason.Time(p.At.Time, o.now()), o.until(p.At))
	}
	switch {
	case s.Phase == string(v1alpha1.Ready), s.Phase == string(v1alpha1.Running):
		o.writeRoom(w, s)
	case s.Phase == string(v1alpha1.Finished):
		fmt.Fprintf(w, "  ended %s ago%s\n", o.age(s.Ended), strings.TrimSuffix(": "+s.Message, ": "))
	}
}

// writeRoom writes the room of a job that runs or starts, and until when the job has it.
func (o *options) writeRoom(w io.Writer, s *jobSummary) {
	ends := "no end is known"
	if !s.Ends.IsZero() {
		ends = "until " + reason.Time(s.Ends.Time, o.now()) + " at the latest"
	}
	if s.Phase == string(v1alpha1.Ready) && len(s.Nodes) > 0 {
		ends = "on " + podsOnNodes(s.Nodes, 8) + ", " + ends
	}
	fmt.Fprintf(w, "  has its room %s\n", ends)
	if s.Message != "" {
		fmt.Fprintf(w, "  %s: %s\n", o.paint(yellow, s.Reason), s.Message)
	}
}

// until returns the time until t, as kubectl writes ages.
func (o *options) until(t metav1.Time) string {
	return duration.HumanDuration(max(0, t.Sub(o.now())).Round(time.Second))
}
