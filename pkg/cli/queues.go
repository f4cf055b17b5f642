package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// A queueSummary has the properties of a Queue that are shown.
type queueSummary struct {
	Name     string `json:"name"`
	Policy   string `json:"policy"`
	Priority int32  `json:"priority"`
	// Enabled is whether the queue takes new jobs, and Started whether its jobs start.
	Enabled bool `json:"enabled"`
	Started bool `json:"started"`
	// NotReady is why the queue can start no jobs. It is empty if it can.
	NotReady string `json:"notReady,omitempty"`
	// Warning is what the queue cannot do although it starts jobs, such as EngineCannotReserve or DefaultTaken. It is empty if there
	// is nothing.
	Warning string `json:"warning,omitempty"`
	// Message explains NotReady or Warning, and names the namespaces of which an older queue is the default.
	Message string `json:"message,omitempty"`
	Pending int32  `json:"pending"`
	Running int32  `json:"running"`
	// Used is what the jobs request that have nodes, and Limits are the limits of the queue.
	Used   corev1.ResourceList  `json:"used,omitempty"`
	Limits v1alpha1.QueueLimits `json:"limits"`
	// Head is the job that starts next, as NAMESPACE/NAME. HeadStarts is from when it is promised room.
	Head       string      `json:"head,omitempty"`
	HeadStarts metav1.Time `json:"headStarts,omitzero"`
}

// A queueSummaries is the list of Queues as JSON and YAML.
type queueSummaries struct {
	metav1.TypeMeta `json:",inline"`
	Items           []queueSummary `json:"items"`
}

// queueListKind is the kind of queueSummaries.
var queueListKind = metav1.TypeMeta{Kind: "QueueList", APIVersion: "cli.fluence.flux-framework.org/v1"}

func (o *options) queuesCommand() *cobra.Command {
	var noHeaders bool
	cmd := &cobra.Command{
		Use:     "queues [NAME...]",
		Aliases: []string{"queue"},
		Short:   "List the queues: policy, how many jobs wait and run, what they use, and who starts next",
		Long: `List the queues: policy, state, how many jobs wait and run, what they use of the limits,
and which job starts next.

The state is Started; Stopped if no job starts (spec.started); Disabled if the queue takes
no new jobs (spec.enabled); the reason why the queue can start none; or what it cannot do
although it starts jobs, such as EngineCannotReserve, or DefaultTaken: Jobs of namespaces that
spec.defaultFor selects go into an older queue. -o wide has the message.`,
		Example:           "  kubectl fluence queues\n  kubectl fluence queues batch -o yaml",
		ValidArgsFunction: o.completeQueues,
	}
	f := addOutputFlag(cmd, formatWide, formatName, formatJSONPath, formatColumns)
	cmd.Flags().BoolVar(&noHeaders, "no-headers", false, "print no header")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		return o.withTimeout(cmd.Context(), func(ctx context.Context) error { return o.queues(ctx, f, names, noHeaders) })
	}
	return cmd
}

func (o *options) queues(ctx context.Context, f *outputFormat, names []string, noHeaders bool) error {
	r, err := o.reader()
	if err != nil {
		return err
	}
	queues, err := r.readQueues(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(queues, func(q *v1alpha1.Queue) bool { return q.Name == name }) {
			return fmt.Errorf("%q: there is no such Queue; kubectl fluence queues lists them", name)
		}
	}
	queues = slices.DeleteFunc(queues, func(q *v1alpha1.Queue) bool { return len(names) > 0 && !slices.Contains(names, q.Name) })
	slices.SortFunc(queues, func(a, b *v1alpha1.Queue) int {
		return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), cmp.Compare(a.Name, b.Name))
	})
	items := make([]queueSummary, 0, len(queues))
	for _, q := range queues {
		s := summaryOfQueue(q)
		if err := r.nameHead(ctx, &s, q.Status.Head); err != nil {
			return err
		}
		items = append(items, s)
	}
	o.noteStopped(ctx, r, oldAnswers)
	o.notes(r.notes)
	return f.print(o.Out, queueSummaries{queueListKind, items}, func(w io.Writer) error {
		if f.value == formatName {
			for _, s := range items {
				fmt.Fprintln(w, v1alpha1.Queues.GroupResource().String()+"/"+s.Name)
			}
			return nil
		}
		if len(items) == 0 {
			fmt.Fprintln(o.ErrOut, "No queues. An administrator creates them: kind Queue of "+v1alpha1.GroupVersion.String()+".")
			return nil
		}
		return table(w, o.queueCells(items, f.value == formatWide, noHeaders))
	})
}

// summaryOfQueue describes a Queue.
func summaryOfQueue(q *v1alpha1.Queue) queueSummary {
	s := queueSummary{
		Name: q.Name, Policy: cmp.Or(string(q.Spec.Policy), string(v1alpha1.EASY)), Priority: q.Spec.Priority,
		Enabled: ptr.Deref(q.Spec.Enabled, true), Started: ptr.Deref(q.Spec.Started, true),
		Pending: q.Status.Pending, Running: q.Status.Running, Used: q.Status.Used, Limits: q.Spec.Limits,
	}
	switch c := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionReady); {
	case c == nil:
	case c.Status == metav1.ConditionFalse:
		s.NotReady, s.Message = c.Reason, c.Message
	case c.Status == metav1.ConditionTrue && c.Reason != v1alpha1.ReasonReady:
		s.Warning, s.Message = c.Reason, c.Message
	}
	if c := meta.FindStatusCondition(q.Status.Conditions, v1alpha1.ConditionDefaultOverlaps); c != nil && c.Status == metav1.ConditionTrue {
		s.Warning = cmp.Or(s.Warning, c.Reason)
		s.Message = strings.TrimPrefix(s.Message+"; "+c.Message, "; ")
	}
	return s
}

// nameHead sets the first job of a queue by the name of its workload. Where the user may not read its FluxJob, it is the name
// of that.
func (r *reader) nameHead(ctx context.Context, s *queueSummary, head *v1alpha1.QueueHead) error {
	if head == nil {
		return nil
	}
	name := head.Name
	l := &v1alpha1.FluxJobList{}
	err := r.queued.Get().Namespace(head.Namespace).Resource(v1alpha1.FluxJobs.Resource).Param("fieldSelector", "metadata.name="+head.Name).Do(ctx).Into(l)
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("list FluxJob %s/%s: %w", head.Namespace, head.Name, err)
	}
	for i := range l.Items {
		if fj := &l.Items[i]; fj.Name == head.Name {
			name = fj.Spec.Workload.Name
		}
	}
	s.Head, s.HeadStarts = head.Namespace+"/"+name, timeOf(head.At)
	return nil
}

// queueCells returns the table of queues.
func (o *options) queueCells(items []queueSummary, wide, noHeaders bool) [][]string {
	head := []string{"NAME", "POLICY", o.paint(plain, "STATE"), "PENDING", "RUNNING", "USED/LIMIT", "HEAD", "STARTS"}
	if wide {
		head = append(head, "PRIORITY", "MESSAGE")
	}
	var cells [][]string
	if !noHeaders {
		cells = append(cells, head)
	}
	for _, s := range items {
		starts := "-"
		if !s.HeadStarts.IsZero() {
			starts = reason.Time(s.HeadStarts.Time, o.now())
		}
		state, colour := s.state()
		row := []string{
			s.Name, s.Policy, o.paint(colour, printable(state)), fmt.Sprint(s.Pending), fmt.Sprint(s.Running),
			s.usedText(), cmp.Or(printableName(s.Head), "-"), starts,
		}
		if wide {
			row = append(row, fmt.Sprint(s.Priority), cmp.Or(printable(s.Message), "-"))
		}
		cells = append(cells, row)
	}
	return cells
}

// state says in one word what the queue does, with its colour.
func (s *queueSummary) state() (string, paint) {
	switch {
	case s.NotReady != "":
		return s.NotReady, red
	case !s.Started:
		return "Stopped", yellow
	case !s.Enabled:
		return "Disabled", yellow
	case s.Warning != "":
		return s.Warning, yellow
	}
	return "Started", green
}

// usedText says what of the limits is used: the number of jobs, and the amount of each resource that is limited. Without any
// such limit it is what is used of cpu and memory.
func (s *queueSummary) usedText() string {
	var parts []string
	if n := s.Limits.Running; n != nil {
		parts = append(parts, fmt.Sprintf("jobs %d/%d", s.Running, *n))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Limits.Requests)) {
		used, limit := s.Used[name], s.Limits.Requests[name]
		parts = append(parts, fmt.Sprintf("%s %s/%s", name, used.String(), limit.String()))
	}
	if len(parts) > 0 {
		return printable(strings.Join(parts, ", "))
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if used, has := s.Used[name]; has {
			parts = append(parts, fmt.Sprintf("%s %s", name, used.String()))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}
