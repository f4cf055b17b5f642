package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/simulate"
)

// A whenAnswer says when a group would start.
type whenAnswer struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	// Starts is true if the group has its nodes, or would get them now.
	Starts bool `json:"starts"`
	// From is when it would start otherwise. It is zero if that is not known, or after evictions.
	From metav1.Time `json:"from,omitzero"`
	// Nodes are the nodes that it would have then.
	Nodes []string `json:"nodes,omitempty"`
	// Reason and Message are why it waits.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Evicts are the victims that would be evicted for the group, so that it starts when they have gone.
	Evicts []simulate.Victim `json:"evicts,omitempty"`

	// Promise is the room that a job in a queue is promised.
	Promise *v1alpha1.JobPromise `json:"promise,omitempty"`

	// Limit is which limit of its queue keeps the job until then or for longer. It is empty if none does, as far as is known.
	Limit string `json:"limit,omitempty"`

	// simulated is true if the scheduler's code gave the answer, and queued if it did for a job in a queue.
	simulated, queued bool
}

func (o *options) whenCommand() *cobra.Command {
	var files resource.FilenameOptions
	cmd := &cobra.Command{
		Use:   "when GROUP | -f FILE",
		Short: "Say when a group that waits, or the groups of a file, would start",
		Long: `Say when a group that waits, or the groups of a file, would start.

The argument is a name as for the command why. For a job in a queue that is promised room the
answer is the promise. For one that is not, the jobs before it are assumed to start in their
order, and each to run until its time limit. If a limit of the queue may keep it for longer, the
answer names it, as for a job of a file. The scheduler's own code decides on the
cluster as it is now. A group that does not start now starts when what is in its way has
ended: the pods on its nodes, and the groups before it in the queue, which are promised room
in their turn. Pods end at their deadlines, and after the annotation ` + "`duration`" + `. This
annotation counts for pods with a node even if nobody ends them then. A group that waits is
in the way for ever if nobody ends its pods. Groups that come later with a higher priority
are not foreseen. Nothing is created, and nobody is evicted.

Exit codes: 0 all groups start now, at a known time or after evictions, 1 error, 2 of at
least one group no time is known, or it never fits.`,
		Example:           "  kubectl fluence when training\n  kubectl fluence when -f job.yaml -o json",
		ValidArgsFunction: o.completeTargets,
	}
	f := addOutputFlag(cmd)
	addFileFlags(cmd, &files)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		if len(args) > 1 || namesFiles(&files) == (len(args) == 1) {
			return errors.New("name one group, as NAME or KIND/NAME, or files with --filename or --kustomize")
		}
		return o.withTimeout(cmd.Context(), func(ctx context.Context) error {
			r, err := o.reader()
			if err != nil {
				return err
			}
			var answers []whenAnswer
			if len(args) == 1 {
				answers, err = o.whenGroup(ctx, r, args[0])
			} else {
				answers, err = o.whenFiles(ctx, r, &files)
			}
			if err != nil {
				return err
			}
			return o.printWhen(ctx, r, f, answers)
		})
	}
	return cmd
}

// whenFiles answers when the groups of files would start.
func (o *options) whenFiles(ctx context.Context, r *reader, files *resource.FilenameOptions) ([]whenAnswer, error) {
	a, err := o.readAddition(ctx, r, files)
	if err != nil {
		return nil, err
	}
	starts, err := simulate.When(ctx, a.cluster.With(a.workload.Cluster), a.configuration, a.workload.Pods(), o.now())
	if err != nil {
		return nil, err
	}
	a.note(r)
	r.noteQueues(ctx)
	answers := answersOf(starts)
	r.addLimits(ctx, a, starts, answers)
	return answers, r.noteDepth(a.configuration, starts)
}

// whenGroup answers when the groups start that a user names.
func (o *options) whenGroup(ctx context.Context, r *reader, name string) ([]whenAnswer, error) {
	n, err := parseTarget(name)
	if err != nil {
		return nil, err
	}
	r.sharesJobs = true
	found, err := o.findInTime(ctx, r, n, 0)
	if err != nil {
		return nil, err
	}
	var waiting []*corev1.Pod
	for _, s := range found {
		if s.Waits && !s.isQueued() {
			waiting = append(waiting, s.members...)
		}
	}
	var starts []simulate.Start
	if len(waiting) > 0 {
		if starts, err = o.whenPods(ctx, r, waiting, keysOf(found)); err != nil {
			return nil, err
		}
	}
	answers := answersOf(starts)
	for _, s := range found {
		switch {
		case s.isQueued():
			a, err := o.whenQueued(ctx, r, s)
			if err != nil {
				return nil, err
			}
			answers = append(answers, a)
		case !slices.ContainsFunc(starts, s.isIn):
			answers = append(answers, s.whenNotSimulated())
		}
	}
	return answers, nil
}

// whenPods answers when the groups of some pods start, whose PodGroups have these names.
func (o *options) whenPods(ctx context.Context, r *reader, pods []*corev1.Pod, groups []types.NamespacedName) ([]simulate.Start, error) {
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
	r.notePending(cluster, configuration.Scheduler(), groups...)
	r.noteQueues(ctx)
	starts, err := simulate.When(ctx, cluster, configuration, pods, o.now())
	if err != nil {
		return nil, err
	}
	return starts, r.noteDepth(configuration, starts)
}

// keysOf returns the names of the PodGroups of answers.
func keysOf(answers []*whyAnswer) (keys []types.NamespacedName) {
	for _, s := range answers {
		if s.podGroup != nil {
			keys = append(keys, types.NamespacedName{Namespace: s.podGroup.Namespace, Name: s.podGroup.Name})
		}
	}
	return keys
}

// isIn reports whether a start is of the group of the answer.
func (s *whyAnswer) isIn(start simulate.Start) bool {
	return s.Namespace == start.Group.Namespace && slices.ContainsFunc(s.members, func(pod *corev1.Pod) bool {
		return slices.Contains(start.Waiting, pod.Name) || slices.ContainsFunc(start.Placements, func(p simulate.Placement) bool { return p.Pod == pod.Name })
	})
}

// whenNotSimulated answers when a group starts of which no pod asks for a node.
func (s *whyAnswer) whenNotSimulated() whenAnswer {
	a := whenAnswer{Namespace: s.Namespace, Name: s.Name, Kind: s.Kind, Starts: !s.Waits && s.Bound > 0, Reason: s.WaitingFor, Message: s.Message}
	if !a.Starts && a.Message == "" {
		a.Message = "no pod of it waits for the scheduler"
	}
	return a
}

// answersOf returns the answers about groups of a simulation.
func answersOf(starts []simulate.Start) []whenAnswer {
	answers := []whenAnswer{}
	for _, s := range starts {
		a := whenAnswer{
			Namespace: s.Group.Namespace, Starts: s.Starts, From: metav1.NewTime(s.From), Nodes: s.Nodes,
			Reason: s.Reason, Message: s.Message, Evicts: s.Evicts, simulated: true,
		}
		a.Kind, a.Name = kindAndName(s.Decision)
		answers = append(answers, a)
	}
	return answers
}

// noteDepth adds a note if the scheduler keeps no room for a group at the time of the answer.
func (r *reader) noteDepth(c simulate.Configuration, starts []simulate.Start) error {
	depth, err := c.Depth()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(starts, func(s simulate.Start) bool { return !s.From.IsZero() && s.Ahead >= depth }) {
		kept := "no group that waits"
		switch {
		case depth == 1:
			kept = "the first group that waits"
		case depth > 1:
			kept = fmt.Sprintf("the first %d groups that wait", depth)
		}
		r.notes = append(r.notes, fmt.Sprintf("the scheduler promises room to %s (its argument promises.depth is %d): groups behind may take the room, so that the start is later", kept, depth))
	}
	return nil
}

// printWhen prints the answers. It returns errNo if of a group no start is known.
func (o *options) printWhen(ctx context.Context, r *reader, f *outputFormat, answers []whenAnswer) error {
	o.noteStopped(ctx, r, placesNothing)
	o.notes(r.notes)
	err := f.print(o.Out, answers, func(w io.Writer) error {
		var assumes []string
		for i := range answers {
			a := &answers[i]
			fmt.Fprintf(w, "%s/%s: %s\n", a.Namespace, o.paint(bold, printableName(a.Name)), o.start(a))
			if a.Limit != "" {
				keeps := "its queue keeps it for now"
				if a.queued {
					keeps = "a limit of its queue may keep it for longer"
				}
				fmt.Fprintf(w, "  %s: %s\n", keeps, o.paint(yellow, printable(a.Limit)))
			}
			if text := a.assumes(); text != "" && !slices.Contains(assumes, text) {
				assumes = append(assumes, text)
			}
		}
		for _, text := range assumes {
			fmt.Fprintf(w, "\n%s\n", text)
		}
		return nil
	})
	if err == nil && slices.ContainsFunc(answers, func(a whenAnswer) bool { return !a.Starts && a.From.IsZero() && len(a.Evicts) == 0 }) {
		return errNo
	}
	return err
}

// whenAssumes is what the answers assume.
const whenAssumes = `This assumes that pods end at their deadlines, and those on nodes also after their annotation duration,
and that no group of a higher priority comes.`

// assumes is what the answer assumes. It is empty if it assumes nothing.
func (a *whenAnswer) assumes() string {
	switch {
	case a.Promise != nil:
		return promiseAssumes
	case a.From.IsZero() && (!a.simulated || a.Reason != reason.NoRoom || a.Starts):
		return ""
	case a.queued:
		return queueAssumes
	}
	return whenAssumes
}

// start says in words when a group starts.
func (o *options) start(a *whenAnswer) string {
	why := printable(a.Message)
	if a.Reason != "" && len(a.Evicts) == 0 {
		why = printable(a.Reason) + ": " + why
	}
	switch {
	case a.Promise != nil:
		return o.whenPromised(a)
	case a.Starts && !a.simulated:
		return "has started"
	case a.Starts && a.Reason != "":
		return o.paint(green, "starts now") + ", without all its pods: " + why
	case a.Starts:
		return o.paint(green, "starts now")
	case len(a.Evicts) > 0:
		return o.paint(yellow, why)
	case !a.From.IsZero():
		in := duration.HumanDuration(max(0, a.From.Sub(o.now())).Round(time.Second))
		return fmt.Sprintf("%s from %s (in %s)", reason.Plural(len(a.Nodes), "node"), reason.Time(a.From.Time, o.now()), in)
	case a.Reason == reason.NeverFits:
		return o.paint(red, "never") + ": " + why
	case a.simulated && a.Reason == reason.NoRoom:
		why = "something in its way has no known end: " + why
	}
	return o.paint(red, "no time is known") + ": " + why
}
