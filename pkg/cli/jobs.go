package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// A jobSummary has the properties of a job in a queue that are shown.
type jobSummary struct {
	Namespace string `json:"namespace"`
	// Name is the name of the FluxJob.
	Name string `json:"name"`
	// Workload is the Job or the pod, as KIND/NAME.
	Workload string `json:"workload"`
	Queue    string `json:"queue"`
	jobNumbers
	jobTimes
	// Phase is how far the job has come: Requested, Waiting, Ready, Running or Finished.
	Phase string `json:"phase"`
	// Result is how a finished job ended.
	Result string `json:"result,omitempty"`
	Held   bool   `json:"held,omitempty"`
	// Reason and Message are why it waits.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Nodes counts the pods on each node of the job's room.
	Nodes map[string]int `json:"nodes,omitempty"`
	// hidden is true if its queue, which may give it a time limit, may not be read.
	hidden bool
}

// jobNumbers are the numbers of a job in a queue.
type jobNumbers struct {
	// Position is the place in the queue, counted from 1, and Queued the number of jobs that have one. Both are 0 if the job
	// does not wait for its turn.
	Position int   `json:"position,omitempty"`
	Queued   int   `json:"queued,omitempty"`
	Priority int32 `json:"priority"`
	// Pods is the number of pods that run at a time.
	Pods int32 `json:"pods"`
	// Requeues counts how often the job lost its room again.
	Requeues int32 `json:"requeues,omitempty"`
}

// jobTimes are the times of a job in a queue.
type jobTimes struct {
	// Duration is the time limit, as a Flux Standard Duration. It is empty if the job has none.
	Duration string `json:"duration,omitempty"`
	// Created is since when the job is in its queue.
	Created metav1.MicroTime `json:"created"`
	// Promise is the room that the job will have.
	Promise *v1alpha1.JobPromise `json:"promise,omitempty"`
	Started metav1.Time          `json:"started,omitzero"`
	// Ends is when the room of a job that runs is free again at the latest.
	Ends  metav1.Time `json:"ends,omitzero"`
	Ended metav1.Time `json:"ended,omitzero"`
}

// A jobList is the list of jobs as JSON and YAML.
type jobList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []jobSummary `json:"items"`
}

// jobListKind is the kind of a jobList.
var jobListKind = metav1.TypeMeta{Kind: "JobList", APIVersion: "cli.fluence.flux-framework.org/v1"}

// jobsOptions are the flags of the command jobs.
type jobsOptions struct {
	format    *outputFormat
	queue     string
	finished  bool
	all       bool
	noHeaders bool
	// names are the jobs to list. There are none for all.
	names []string
}

func (o *options) jobsCommand() *cobra.Command {
	j := &jobsOptions{}
	cmd := &cobra.Command{
		Use:     "jobs [NAME...]",
		Aliases: []string{"job"},
		Short:   "List the jobs in queues: which wait, with the reason, which run, and when each starts",
		Long: `List the jobs in queues: first those that wait, queue by queue in the order in which they
start, then those that run, the first started first. With --all the jobs that have ended
come after them, as long as their Jobs and pods exist. With names only these are listed, also those
that have ended; a name is that of a Job, a pod or a FluxJob, as for hold.

The column STARTS says when a job has started or, if it waits and is promised room, from
when. Groups that wait in no queue are listed by kubectl fluence groups.`,
		Example: `  kubectl fluence jobs
  kubectl fluence jobs solver
  kubectl fluence jobs -A -q batch -o wide
  kubectl fluence jobs --all -o custom-columns=JOB:.workload,RESULT:.result`,
		ValidArgsFunction: o.completeJobs,
	}
	j.format = addOutputFlag(cmd, formatWide, formatName, formatJSONPath, formatColumns)
	f := cmd.Flags()
	f.StringVarP(&j.queue, "queue", "q", "", "list only the jobs of this queue")
	f.BoolVar(&j.finished, "all", false, "list also the jobs that have ended")
	f.BoolVarP(&j.all, "all-namespaces", "A", false, "list the jobs of all namespaces")
	f.BoolVar(&j.noHeaders, "no-headers", false, "print no header")
	if err := cmd.RegisterFlagCompletionFunc("queue", o.completeQueues); err != nil {
		panic(err) // the flag was added right above
	}
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if err := j.format.validate(); err != nil {
			return err
		}
		if j.names = names; len(names) > 0 && j.all {
			return fmt.Errorf("--all-namespaces: does not go with names, such as %q: name the namespace with --namespace", names[0])
		}
		return o.withTimeout(cmd.Context(), func(ctx context.Context) error { return o.jobs(ctx, j) })
	}
	return cmd
}

func (o *options) jobs(ctx context.Context, j *jobsOptions) error {
	r, err := o.reader()
	if err != nil {
		return err
	}
	if j.all {
		r.namespace = ""
	}
	rows, err := r.listJobs(ctx, j)
	if err != nil {
		return err
	}
	o.noteStopped(ctx, r, oldAnswers)
	o.notes(r.notes)
	return j.format.print(o.Out, jobList{jobListKind, rows}, func(w io.Writer) error {
		if j.format.value == formatName {
			for i := range rows {
				fmt.Fprintln(w, v1alpha1.FluxJobs.GroupResource().String()+"/"+rows[i].Name)
			}
			return nil
		}
		if len(rows) == 0 {
			fmt.Fprintln(o.ErrOut, j.nothingIn(r.namespace))
			return nil
		}
		return table(w, o.jobCells(rows, j))
	})
}

// nothingIn says in words that the list is empty.
func (j *jobsOptions) nothingIn(namespace string) string {
	text := "No jobs"
	if j.queue != "" {
		text += " of queue " + j.queue
	}
	if !j.finished {
		text += " that wait or run"
	}
	if namespace == "" {
		return text + " in any namespace."
	}
	return text + " in namespace " + namespace + "."
}

// listJobs reads the jobs that the user asks for, in the order of the list.
func (r *reader) listJobs(ctx context.Context, j *jobsOptions) ([]jobSummary, error) {
	// The places, which the plain table does not show, need the jobs of all namespaces.
	read := r.readQueuedJobs
	if j.format.value == "" || j.format.value == formatName {
		read = func(ctx context.Context) ([]*v1alpha1.FluxJob, bool, error) {
			jobs, err := r.readFluxJobs(ctx, r.namespace)
			return jobs, true, err
		}
	}
	jobs, whole, err := read(ctx)
	if err != nil {
		return nil, err
	}
	queues, err := r.readQueues(ctx)
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	named, known := byQueueName(queues), err == nil
	if j.queue != "" && known && named[j.queue] == nil && !slices.ContainsFunc(jobs, func(fj *v1alpha1.FluxJob) bool { return fj.Spec.Queue == j.queue }) {
		return nil, fmt.Errorf("--queue: %q: there is no such Queue; kubectl fluence queues lists them", j.queue)
	}
	places := placesOf(jobs)
	if len(j.names) > 0 {
		if jobs, err = r.namedJobs(ctx, jobs, j.names); err != nil {
			return nil, err
		}
	}
	jobs = slices.DeleteFunc(jobs, func(fj *v1alpha1.FluxJob) bool {
		return r.namespace != "" && fj.Namespace != r.namespace || j.queue != "" && fj.Spec.Queue != j.queue || fj.Status.Phase == v1alpha1.Finished && !j.finished && len(j.names) == 0
	})
	slices.SortFunc(jobs, func(a, b *v1alpha1.FluxJob) int { return compareListed(a, b, places[a.UID], places[b.UID]) })
	rows := make([]jobSummary, 0, len(jobs))
	for _, fj := range jobs {
		rows = append(rows, summaryOfJob(fj, named[fj.Spec.Queue], places[fj.UID]))
	}
	if !known && slices.ContainsFunc(jobs, func(fj *v1alpha1.FluxJob) bool { return fj.Spec.Duration == "" }) {
		r.notes = append(r.notes, "you may not list queues: time limits that are those of a queue are not shown")
	}
	if !whole && slices.ContainsFunc(rows, func(s jobSummary) bool { return s.Position > 0 }) {
		r.notes = append(r.notes, placeInQueue(r.namespace))
	}
	return rows, nil
}

// namedJobs returns the jobs that have these names. A job that is named twice is there once.
func (r *reader) namedJobs(ctx context.Context, jobs []*v1alpha1.FluxJob, names []string) (named []*v1alpha1.FluxJob, err error) {
	here := slices.DeleteFunc(slices.Clone(jobs), func(fj *v1alpha1.FluxJob) bool { return fj.Namespace != r.namespace })
	for _, name := range names {
		fj, err := r.readJob(ctx, here, name, "get job %s")
		if err != nil {
			return nil, err
		}
		if !slices.Contains(named, fj) {
			named = append(named, fj)
		}
	}
	return named, nil
}

// placeInQueue is the note that places in queues count the jobs of one namespace alone.
func placeInQueue(namespace string) string {
	return fmt.Sprintf("you may not list the fluxjobs of all namespaces: what is shown is the place among the jobs of namespace %s", namespace)
}

// compareListed orders jobs in a list: those that wait by queue, with those first that have a place, then those that start
// and run by their start, then those that have ended, the last one first.
func compareListed(a, b *v1alpha1.FluxJob, atA, atB place) int {
	rank := []v1alpha1.JobPhase{v1alpha1.Waiting, v1alpha1.Ready, v1alpha1.Running, v1alpha1.Finished}
	kind := func(fj *v1alpha1.FluxJob) int { return max(0, slices.Index(rank, fj.Status.Phase)) }
	if c := cmp.Compare(kind(a), kind(b)); c != 0 {
		return c
	}
	switch a.Status.Phase {
	case v1alpha1.Finished:
		return cmp.Or(timeOf(b.Status.Ended).Compare(timeOf(a.Status.Ended).Time), compareRanks(a, b))
	case v1alpha1.Running, v1alpha1.Ready:
		return cmp.Or(timeOf(a.Status.Started).Compare(timeOf(b.Status.Started).Time), compareRanks(a, b))
	default: // they wait
	}
	// A place of 0 becomes the largest number.
	return cmp.Or(cmp.Compare(a.Spec.Queue, b.Spec.Queue), cmp.Compare(uint(atA.at-1), uint(atB.at-1)), compareRanks(a, b))
}

// timeOf returns a time that may be missing.
func timeOf(t *metav1.Time) metav1.Time {
	if t == nil {
		return metav1.Time{}
	}
	return *t
}

// summaryOfJob describes a job. queue is nil if it is not known.
func summaryOfJob(fj *v1alpha1.FluxJob, queue *v1alpha1.Queue, at place) jobSummary {
	s := jobSummary{
		Namespace: fj.Namespace, Name: fj.Name, Workload: listedName(fj), Queue: fj.Spec.Queue,
		jobNumbers: jobNumbers{Position: at.at, Queued: at.of, Priority: fj.Spec.Priority, Pods: fj.Spec.Pods, Requeues: fj.Status.Requeues},
		jobTimes: jobTimes{
			Duration: timeLimit(fj, queue), Created: metav1.NewMicroTime(queuedSince(fj)),
			Ended: timeOf(fj.Status.Ended),
		},
		Phase: cmp.Or(string(fj.Status.Phase), string(v1alpha1.Requested)), Result: string(fj.Status.Result), Held: fj.Spec.Held,
	}
	s.Reason, s.Message, _ = whyQueued(fj)
	if p := fj.Status.Phase; p == v1alpha1.Running || p == v1alpha1.Finished {
		s.Started = timeOf(fj.Status.Started) // else it is the start of an earlier run
	}
	switch fj.Status.Phase {
	case v1alpha1.Ready, v1alpha1.Running:
		if a := fj.Status.Allocation; a != nil {
			s.Ends, s.Nodes = timeOf(a.End), roomOf(a)
			s.Duration, s.Reason, s.Message = limitThatHolds(fj, queue)
		}
		if c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionValid); c != nil && c.Reason == v1alpha1.ReasonWouldDelay {
			s.Reason, s.Message = c.Reason, c.Message
		}
	case v1alpha1.Finished:
		if c := meta.FindStatusCondition(fj.Status.Conditions, v1alpha1.ConditionFinished); c != nil {
			s.Message = c.Message
		}
	default:
		s.Promise = fj.Status.Promise
	}
	return s
}

// listedName is the name of the workload of a job in a list, as the list of groups has it.
func listedName(fj *v1alpha1.FluxJob) string {
	if w := fj.Spec.Workload; w.Kind == "Pod" {
		return "pod/" + w.Name
	}
	return fj.Spec.Workload.Kind + "/" + fj.Spec.Workload.Name
}

// roomOf counts the pods on each node of an allocation. It returns nil for nodes that cannot be read.
func roomOf(a *v1alpha1.JobAllocation) map[string]int {
	nodes, err := a.Nodes()
	if err != nil || len(nodes) == 0 {
		return nil
	}
	count := map[string]int{}
	for _, n := range nodes {
		count[n]++
	}
	return count
}

// jobCells returns the table of jobs.
func (o *options) jobCells(rows []jobSummary, j *jobsOptions) [][]string {
	wide := j.format.value == formatWide
	head := []string{"NAME", "QUEUE", "PRIORITY", o.paint(plain, "STATE"), "PODS", "DURATION", "STARTS", "REASON"}
	if wide {
		head = append([]string{"#"}, append(head, "SUBMITTED", "ENDS", "FLUXJOB", "NODES")...)
	}
	if j.all {
		head = slices.Insert(head, 0, "NAMESPACE")
	}
	var cells [][]string
	if !j.noHeaders {
		cells = append(cells, head)
	}
	for _, s := range rows {
		s = s.printable()
		row := []string{
			s.Workload, s.Queue, fmt.Sprint(s.Priority), o.paint(s.colour(), s.state()), fmt.Sprint(s.Pods), cmp.Or(s.Duration, "-"),
			o.startOfJob(&s, wide), cmp.Or(s.Reason, "-"),
		}
		if wide {
			position := "-"
			if s.Position > 0 {
				position = fmt.Sprint(s.Position)
			}
			ends := s.Ends
			if !s.Ended.IsZero() {
				ends = s.Ended
			}
			row = append([]string{position}, append(row, clock(metav1.NewTime(s.Created.Time)), clock(ends), s.Name, nodesOf(&s))...)
		}
		if j.all {
			row = slices.Insert(row, 0, s.Namespace)
		}
		cells = append(cells, row)
	}
	return cells
}

// nodesOf returns the nodes of a job's room as a list of hosts.
func nodesOf(s *jobSummary) string {
	if len(s.Nodes) == 0 {
		return "-"
	}
	return hosts(sortedKeys(s.Nodes), true)
}

// printable returns the job as the text shows it.
func (s jobSummary) printable() jobSummary {
	s.Workload = printableName(s.Workload)
	for _, text := range []*string{&s.Queue, &s.Duration, &s.Reason, &s.Message} {
		*text = printable(*text)
	}
	if p := s.Promise; p != nil {
		s.Promise = p.DeepCopy()
		s.Promise.Why = printable(p.Why)
	}
	return s
}

// state is the phase of a job or, if it has ended, how.
func (s *jobSummary) state() string {
	if s.Phase == string(v1alpha1.Finished) {
		return cmp.Or(s.Result, s.Phase)
	}
	return s.Phase
}

// colour returns the colour of a job: yellow for one that waits, green for one that runs or has succeeded, and red for one that
// cannot start as it is or has failed.
func (s *jobSummary) colour() paint {
	switch {
	case s.Phase == string(v1alpha1.Ready), s.Phase == string(v1alpha1.Running), s.Result == string(v1alpha1.Succeeded):
		return green
	case s.Phase == string(v1alpha1.Finished), s.Reason == v1alpha1.ReasonNeverFits, strings.HasPrefix(s.Reason, "Invalid"):
		return red
	}
	return yellow
}

// startOfJob returns when a job started, or from when it is promised room. A time of today has no date, unless wide is set.
func (o *options) startOfJob(s *jobSummary, wide bool) string {
	at := s.Started
	if s.Promise != nil {
		at = s.Promise.At
	}
	if at.IsZero() || wide {
		return clock(at)
	}
	return reason.Time(at.Time, o.now())
}
