package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/simulate"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// A whyAnswer is the answer of the command why.
type whyAnswer struct {
	// Kind is PodGroup, or Pod for a pod without a group. For a group
	// without a PodGroup it is the kind of the object that creates its pods.
	Kind string `json:"kind"`
	groupSummary
	// Waits is true if pods of the group wait for nodes.
	Waits bool `json:"waits"`
	// Pod is set if the question was about a pod.
	Pod *podAnswer `json:"pod,omitempty"`
	// Hints are other reasons why pods of the group wait.
	Hints []string `json:"hints,omitempty"`
	// Evicted says for whom its pods are being evicted, and how many have not ended, or when they had if the group waits
	// since. It is empty if they are not evicted.
	Evicted string `json:"evicted,omitempty"`
	// Gone are the nodes of its pods that do not exist any more.
	Gone []string `json:"gone,omitempty"`
	// Queued is the number of groups in the queue in which Position is the place.
	Queued int `json:"queued,omitempty"`
	// UselessKeys say which labels and annotations have no effect where they are, such as misspelt ones.
	UselessKeys []string `json:"uselessKeys,omitempty"`
	// Job is the job in a queue. It is nil if the workload is in none.
	Job *jobSummary `json:"job,omitempty"`
	// Now is the decision that the scheduler would make now.
	Now *simulate.Decision `json:"now,omitempty"`

	podGroup *scheduling.PodGroup
	fluxJob  *v1alpha1.FluxJob
	members  []*corev1.Pod
	// toCome has a pod as a Job will make it that was created suspended.
	toCome []*corev1.Pod
	// wantedGroup is the PodGroup for which its pods wait, if it does not exist.
	wantedGroup string
	// askedNow and waited are true if the user gave --now or --wait.
	askedNow, waited bool
}

type podAnswer struct {
	Name  string `json:"name"`
	Node  string `json:"node,omitempty"`
	Phase string `json:"phase,omitempty"`
	// Ended says how the pod ended. It is empty if the pod can still run.
	Ended   string `json:"ended,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Decided is when the scheduler decided so. It is zero if that is not known.
	Decided metav1.Time `json:"decided,omitzero"`
}

func (o *options) whyCommand() *cobra.Command {
	var now bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "why GROUP|POD",
		Short: "Say why a group or a pod waits",
		Long: `Say why a group or a pod waits, as its status says.

The argument is the name of a PodGroup, of a pod, or of the object for which a PodGroup is
named, such as a Job; use KIND/NAME if a name is ambiguous. For a LeaderWorkerSet all its
units are shown. With --now the scheduler's own
code decides on the cluster as it is now, after it has placed the groups that are ahead of
this one in the queue. Nodes that the scheduler has chosen for pods that are not bound yet
count as free. Where it would evict others for the group, the answer says whom, and how. With --wait the command asks again for that time, until there is a reason.

Exit codes: 0 the group or pod has its nodes, 1 error, 2 it waits.`,
		Example: "  kubectl fluence why training\n  kubectl fluence why pod/training-0 --now",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errNameOne
			}
			return nil
		},
		ValidArgsFunction: o.completeTargets,
	}
	f := addOutputFlag(cmd)
	cmd.Flags().BoolVar(&now, "now", false, "simulate the scheduler's decision on the cluster as it is now")
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait up to this time for a reason if there is none yet, such as 5s")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		if wait < 0 {
			return fmt.Errorf("--wait: %s: must not be below 0", wait)
		}
		return o.withTimeout(cmd.Context(), func(ctx context.Context) error { return o.why(ctx, f, args[0], now, wait) })
	}
	return cmd
}

func (o *options) why(ctx context.Context, f *outputFormat, name string, now bool, wait time.Duration) error {
	n, err := parseTarget(name)
	if err != nil {
		return err
	}
	r, err := o.reader()
	if err != nil {
		return err
	}
	r.sharesJobs = now
	answers, err := o.findInTime(ctx, r, n, wait)
	if err != nil {
		return err
	}
	for _, s := range answers {
		s.askedNow, s.waited = now, wait > 0
		if err := o.explain(ctx, r, s, now); err != nil {
			return err
		}
	}
	if now {
		o.noteStopped(ctx, r, placesNothing)
	}
	if err := o.addPositions(ctx, r, answers); err != nil {
		return err
	}
	if err := r.addJobs(ctx, answers); err != nil {
		return err
	}
	o.notes(r.notes)
	var printed any = answers
	if len(answers) == 1 && !answers[0].isUnitOf(n) {
		printed = answers[0]
	}
	if err := f.print(o.Out, printed, func(w io.Writer) error {
		for _, s := range answers {
			o.writeWhy(w, s)
		}
		return nil
	}); err != nil {
		return err
	}
	if slices.ContainsFunc(answers, func(s *whyAnswer) bool { return s.Waits }) {
		return errNo
	}
	return nil
}

// explain adds to an answer what the status does not say.
func (o *options) explain(ctx context.Context, r *reader, s *whyAnswer, now bool) error {
	if err := r.addGone(ctx, s); err != nil {
		return err
	}
	switch {
	case s.Status == statusTerminating:
		return nil // what is missing is not made any more
	case s.isQueued():
		if now {
			r.notes = append(r.notes, fmt.Sprintf("--now: %s/%s waits in queue %s: kubectl fluence when says when it starts", s.Namespace, s.Name, s.fluxJob.Spec.Queue))
		}
		return nil
	case s.WaitingFor == waitingForFluxJob:
		return nil
	case s.WaitingFor == reason.Suspended:
		s.addHowToResume()
		return nil
	}
	foreign := s.podGroup == nil && len(s.members) > 0
	if !s.unclear() && (!now || !s.Waits) && !foreign {
		return nil
	}
	read := o.configuration
	if !s.Waits {
		read = o.quietConfiguration
	}
	configuration, err := read(ctx, r)
	if err != nil {
		return err
	}
	s.addHints(configuration.Scheduler())
	if s.WaitingFor == reason.NoPodGroup {
		if err := o.addController(ctx, r, s); err != nil {
			return err
		}
	}
	if now && s.Waits {
		return r.decideNow(ctx, s, configuration)
	}
	return nil
}

// addEviction fills in Evicted. sentence and ended are the results of eviction.Evicted. An empty sentence changes nothing.
func (s *whyAnswer) addEviction(now metav1.Time, sentence string, ended metav1.Time) {
	left := 0
	for _, pod := range s.members {
		if translate.Holds(pod) {
			left++
		}
	}
	switch {
	case sentence == "":
	case ended.IsZero() && left == 1:
		s.Evicted = sentence + "; 1 is still ending"
	case ended.IsZero():
		s.Evicted = fmt.Sprintf("%s; %d are still ending", sentence, left)
	case s.Waits && left == 0:
		s.Evicted = fmt.Sprintf("%s; the last had gone at %s", sentence, reason.Time(ended.Time, now.Time))
	}
}

// addGone sets the nodes of pods that do not exist any more. It leaves them out if the user may not list nodes.
func (r *reader) addGone(ctx context.Context, s *whyAnswer) (err error) {
	if len(s.Nodes) > 0 {
		s.Gone, err = r.goneOf(ctx, sortedKeys(s.Nodes))
	}
	return err
}

// decideNow sets Now to the decision of the scheduler's code on the group.
func (r *reader) decideNow(ctx context.Context, s *whyAnswer, configuration simulate.Configuration) error {
	cluster, err := r.readCluster(ctx)
	if err != nil {
		return err
	}
	except := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	if s.podGroup != nil {
		except.Name = s.podGroup.Name
	}
	r.notePending(cluster, configuration.Scheduler(), except)
	r.noteQueues(ctx)
	ctx, end := context.WithCancel(ctx)
	defer end()
	sim, err := simulate.New(ctx, cluster, configuration)
	if err != nil {
		return err
	}
	for _, pod := range s.members {
		if key, ok := sim.GroupOf(pod.UID); ok {
			d, err := sim.Decide(ctx, key)
			s.Now = &d
			return err
		}
	}
	r.notes = append(r.notes, fmt.Sprintf("--now: no pod of %s/%s waits for the scheduler %q: nothing to simulate", s.Namespace, s.Name, configuration.Scheduler()))
	return nil
}

// printable returns the answer as the text shows it.
func (s whyAnswer) printable() *whyAnswer {
	s.Kind, s.Name, s.groupSummary = printableName(s.Kind), printableName(s.Name), s.groupSummary.printable()
	s.Evicted = printable(s.Evicted)
	s.Hints, s.UselessKeys = slices.Clone(s.Hints), slices.Clone(s.UselessKeys)
	for _, texts := range [][]string{s.Hints, s.UselessKeys} {
		for i := range texts {
			texts[i] = printable(texts[i])
		}
	}
	if s.Pod != nil {
		pod := *s.Pod
		pod.Message = printable(pod.Message)
		s.Pod = &pod
	}
	return &s
}

func (o *options) writeWhy(w io.Writer, s *whyAnswer) {
	s = s.printable()
	kind, name := s.Kind, s.Name
	if bare, native := strings.CutPrefix(name, nativeKind+"/"); native {
		kind, name = nativeKind, bare
	}
	fmt.Fprintf(w, "%s %s/%s", kind, s.Namespace, o.paint(bold, name))
	if s.Owner != "" {
		fmt.Fprintf(w, " of %s", s.Owner)
	}
	if s.Unit != "" {
		fmt.Fprintf(w, ", unit %s", s.Unit)
	}
	fmt.Fprintln(w)
	if s.podGroup != nil || s.Status == statusTerminating {
		o.writeNumbers(w, s)
	}
	if s.Job != nil {
		o.writeJob(w, s.Job)
	}
	if len(s.Nodes) > 0 {
		fmt.Fprintf(w, "  on %s\n", podsOnNodes(s.Nodes, 8))
	}
	for _, name := range s.Gone {
		fmt.Fprintf(w, "  node %s is gone; Kubernetes removes %s in about a minute\n", name, itsPods(s.Nodes[name]))
	}
	if len(s.Seats) > 0 {
		fmt.Fprintf(w, "  seats on %s\n", podsOnNodes(s.Seats, 8))
	}
	if s.Queued > 1 {
		fmt.Fprintf(w, "  place %d of %d in the queue\n", s.Position, s.Queued)
	}
	if s.Evicted != "" {
		fmt.Fprintf(w, "  %s: %s\n", o.paint(yellow, "evicted"), s.Evicted)
	}
	o.writeReason(w, s)
	if s.Fault != "" {
		fmt.Fprintf(w, "  %s: %s\n", o.paint(yellow, "has a fault"), s.Fault)
	}
	for _, hint := range s.Hints {
		fmt.Fprintf(w, "    %s\n", hint)
	}
	for _, text := range s.UselessKeys {
		fmt.Fprintf(w, "  %s: %s\n", o.paint(yellow, "warning"), text)
	}
	if p := s.Pod; p != nil && (s.podGroup != nil || p.Ended != "") {
		o.writePod(w, s, p)
	}
	if s.Now != nil {
		o.writeDecision(w, "now", *s.Now)
	}
}

// writeNumbers writes the line with the numbers of a group.
func (o *options) writeNumbers(w io.Writer, s *whyAnswer) {
	if s.Status == statusFinished {
		ran := ""
		if s.RunSeconds != nil && !s.Ended.IsZero() {
			ran = ", ran " + lasted(s.RunSeconds)
		}
		fmt.Fprintf(w, "  %s%s, phase %s, age %s\n", o.ended(&s.groupSummary), ran, cmp.Or(s.Phase, "<none>"), o.age(s.Created))
		return
	}
	minimum, ended, priority := "", "", ""
	if s.Minimum > 0 && s.Minimum < s.Size {
		minimum = fmt.Sprintf(" (minimum %d)", s.Minimum)
	}
	if pods := s.endedPods(); pods != "" {
		ended = ", " + pods
	}
	if s.Priority != 0 {
		priority = fmt.Sprintf(", priority %d", s.Priority)
	}
	fmt.Fprintf(w, "  %d of %s bound%s%s, phase %s%s, age %s\n", s.Bound, reason.Plural(int(s.Size), "pod"), minimum, ended, cmp.Or(s.Phase, "<none>"), priority, o.age(s.Created))
}

// itsPods returns how n pods of a node are named after the node.
func itsPods(n int) string {
	if n == 1 {
		return "its pod"
	}
	return fmt.Sprintf("its %d pods", n)
}

// newFor is the age up to which a group without a reason has not been looked at by the
// scheduler. It reports most reasons within two checks, which are 2 seconds apart.
const newFor = 6 * time.Second

// writeReason writes why a group or a pod waits, or that it does not.
func (o *options) writeReason(w io.Writer, s *whyAnswer) {
	switch {
	case s.Status == statusTerminating:
		fmt.Fprintf(w, "  %s\n", s.Message)
	case s.Status == statusFinished && s.Message != "":
		fmt.Fprintf(w, "  %s\n", s.Message)
	case s.WaitingFor != "":
		state := "waiting" + o.since(s.Since)
		if s.WaitingFor == reason.Suspended {
			state = "suspended" + o.since(s.Since)
		}
		if s.Job != nil && s.isQueued() {
			state = "waiting for " + o.age(metav1.NewTime(s.Job.Created.Time))
		}
		if s.Status == statusWaiting && s.WaitSeconds != nil {
			state = "waiting for " + lasted(s.WaitSeconds)
		}
		if s.Status == statusRunning && s.Pending > 0 && s.Bound >= s.Minimum && s.podGroup != nil {
			state = fmt.Sprintf("the group has its minimum of %d; %s", s.Minimum, moreWait(s.members))
		}
		fmt.Fprintf(w, "  %s, reason %s\n    %s%s\n", state, o.paint(yellow, s.WaitingFor), s.Message, o.decided(s, s.Decided))
	case s.Waits && len(s.Hints) > 0:
		fmt.Fprintln(w, "  waiting")
	case s.Waits && s.podGroup != nil && s.Bound > 0 && s.Bound >= s.Minimum:
		fmt.Fprintf(w, "  the group has its minimum of %d; %s\n", s.Minimum, moreWait(s.members))
	case s.Waits && !s.waited && !s.Created.IsZero() && o.now().Sub(s.Created.Time) < newFor:
		fmt.Fprintf(w, "  waiting; created %s ago, the scheduler has not reported a reason yet: --wait=5s waits for it\n", o.age(s.Created))
	case s.Waits:
		simulates := ", --now simulates its decision"
		if s.askedNow {
			simulates = ""
		}
		fmt.Fprintf(w, "  waiting; the scheduler has not reported a reason yet: kubectl fluence status shows whether it runs%s\n", simulates)
	case s.Expecting != "":
		fmt.Fprintf(w, "  does not wait for nodes, reason %s\n    %s\n", o.paint(green, reason.Expecting), s.Expecting)
	case s.Status == statusIdle:
		fmt.Fprintf(w, "  %s: the workload wants no pods for now\n", o.paint(green, "does not wait"))
	case s.Status != statusFinished || s.podGroup == nil:
		fmt.Fprintf(w, "  %s\n", o.paint(green, "does not wait"))
	}
}

// oldFor is the age from which on the age of a decision is shown. Groups that the message names can have gone since.
const oldFor = 2 * time.Second

// decided says in words when the scheduler decided on a group or one of its pods, if its message may
// be old.
func (o *options) decided(s *whyAnswer, at metav1.Time) string {
	switch {
	case at.IsZero() || o.now().Sub(at.Time) < oldFor:
		return ""
	case s.askedNow || !slices.ContainsFunc(s.members, func(pod *corev1.Pod) bool { return waits(pod) && !gated(pod) }):
		// --now was given, or has nothing to decide on.
		return fmt.Sprintf(" (as of %s ago)", o.age(at))
	}
	return fmt.Sprintf(" (as of %s ago; --now decides anew)", o.age(at))
}

func (o *options) writePod(w io.Writer, s *whyAnswer, p *podAnswer) {
	switch {
	case p.Ended != "":
		fmt.Fprintf(w, "  pod %s %s\n", p.Name, p.Ended)
	case p.Node != "":
		fmt.Fprintf(w, "  pod %s is on node %s\n", p.Name, p.Node)
	case p.Message != "":
		fmt.Fprintf(w, "  pod %s waits: %s%s\n", p.Name, p.Message, o.decided(s, p.Decided))
	default:
		fmt.Fprintf(w, "  pod %s waits with its group\n", p.Name)
	}
}

// moreWait says in words how many of the pods wait.
func moreWait(pods []*corev1.Pod) string {
	n := 0
	for _, pod := range pods {
		if waits(pod) {
			n++
		}
	}
	if n == 1 {
		return "1 more pod waits for a node"
	}
	return fmt.Sprintf("%d more pods wait for nodes", n)
}

// since says in words how long something has lasted.
func (o *options) since(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return " for " + o.age(t)
}

// writeDecision writes a decision on a group.
func (o *options) writeDecision(w io.Writer, when string, d simulate.Decision) {
	d.Reason, d.Message = printable(d.Reason), printable(d.Message)
	nodes := map[string]int{}
	for _, p := range d.Placements {
		nodes[p.Node]++
	}
	switch {
	case d.Starts && len(d.Placements) > 0:
		fmt.Fprintf(w, "  %s: %s, %s on %s (%s)\n", when, o.paint(green, "would start"), reason.Plural(len(d.Placements), "pod"), reason.Plural(len(nodes), "node"), podsOnNodes(nodes, 8))
	case d.Starts:
		fmt.Fprintf(w, "  %s: has started\n", when)
	case len(d.Evicts) > 0:
		o.writeVictims(w, when, d)
		return
	default:
		fmt.Fprintf(w, "  %s: %s: %s\n    %s\n", when, o.paint(red, "would not start"), d.Reason, d.Message)
		return
	}
	if len(d.Waiting) > 0 {
		fmt.Fprintf(w, "    %s: %s: %s\n", moreWithoutNode(len(d.Waiting)), d.Reason, d.Message)
	}
}

func moreWithoutNode(n int) string {
	if n == 1 {
		return "1 more pod has no node"
	}
	return fmt.Sprintf("%d more pods have no node", n)
}
