package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/statusmap"
)

// staleAfter is the age above which a report is stale: the scheduler seems to have stopped writing
// it.
const staleAfter = statusmap.MaxWriteInterval + 2*statusmap.MinWriteInterval

// mentionedAfter is the age above which what a report says of the matcher is shown with the age of the report.
const mentionedAfter = 5 * time.Second

// A statusAnswer is the answer of the command status.
type statusAnswer struct {
	// Healthy is true if scheduler and controller hold their leases, the report is recent, and the matcher
	// answers and has its graph.
	Healthy bool `json:"healthy"`
	// Wrong has the reasons why not.
	Wrong []string `json:"wrong,omitempty"`
	// Scheduler and Controller are their leases now. They are nil if they could not be read.
	Scheduler  *leaseAnswer `json:"scheduler,omitempty"`
	Controller *leaseAnswer `json:"controller,omitempty"`
	// Unanswered is the number of groups whose PodGroup says, since the report, that the matcher does not answer.
	Unanswered int `json:"unanswered,omitempty"`
	// Status is the report. It is as old as its field updated.
	Status *statusmap.Status `json:"figures,omitempty"`
}

func (o *options) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether scheduler, matcher and controller are healthy",
		Long: `Show whether scheduler, matcher and controller are healthy. Their leases and the reasons
of waiting PodGroups are read now. The other figures are from the report that the leading
scheduler writes into ConfigMap ` + statusmap.Name + ` of its namespace; its age is shown.

Exit codes: 0 healthy, 1 error, 2 not healthy, or the last report is old.`,
		Args: cobra.NoArgs,
	}
	f := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.validate(); err != nil {
			return err
		}
		return o.withTimeout(cmd.Context(), func(ctx context.Context) error { return o.status(ctx, f) })
	}
	return cmd
}

func (o *options) status(ctx context.Context, f *outputFormat) error {
	r, err := o.reader()
	if err != nil {
		return err
	}
	answer, err := o.readStatus(ctx, r)
	if err != nil {
		return err
	}
	o.notes(r.notes)
	if err := f.print(o.Out, answer, func(w io.Writer) error { return o.writeStatus(w, answer) }); err != nil {
		return err
	}
	if !answer.Healthy {
		return errNo
	}
	return nil
}

// readStatus reads leases, report and PodGroups, and judges them.
func (o *options) readStatus(ctx context.Context, r *reader) (statusAnswer, error) {
	name := o.schedulerNamespace + "/" + statusmap.Name
	var answer statusAnswer
	if err := r.checkVersion(ctx); err != nil {
		answer.Wrong = append(answer.Wrong, err.Error())
	}
	c, err := r.client.CoreV1().ConfigMaps(o.schedulerNamespace).Get(ctx, statusmap.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		answer.Wrong = append(answer.Wrong, fmt.Sprintf("ConfigMap %s does not exist: no scheduler that writes it has become leader in that namespace; check --scheduler-namespace, and see kubectl get pods -n %s", name, o.schedulerNamespace))
		return answer, nil
	case apierrors.IsForbidden(err):
		return statusAnswer{}, fmt.Errorf("you may not read ConfigMap %s: ask for a role that grants get on it: %w", name, err)
	case err != nil:
		return statusAnswer{}, fmt.Errorf("read ConfigMap %s: %w", name, err)
	}
	status, err := statusmap.Read(c.Data)
	switch {
	case errors.Is(err, statusmap.ErrNoStatus):
		// Standbys write to the ConfigMap too.
		answer.Wrong = append(answer.Wrong, fmt.Sprintf("ConfigMap %s has no report: no scheduler has become leader in that namespace; see kubectl get pods -n %s", name, o.schedulerNamespace))
		return answer, nil
	case err != nil:
		return statusAnswer{}, fmt.Errorf("ConfigMap %s: %w", name, err)
	}
	answer.Status = &status
	if answer.Scheduler, err = o.readLease(ctx, r, schedulerLease); err != nil {
		return statusAnswer{}, err
	}
	if answer.Controller, err = o.readLease(ctx, r, podgroup.FieldManager); err != nil {
		return statusAnswer{}, err
	}
	if err := o.rereadExpired(ctx, r, &answer); err != nil {
		return statusAnswer{}, err
	}
	if answer.Unanswered, err = r.countUnanswered(ctx, status.Updated); err != nil {
		return statusAnswer{}, err
	}
	if why := answer.noScheduler(o); why != "" {
		// What this scheduler last wrote about its matcher says nothing about now.
		answer.Wrong = append(answer.Wrong, why)
	} else {
		answer.Wrong = append(answer.Wrong, answer.wrongWithMatcher(o)...)
	}
	if why := answer.noController(o); why != "" {
		answer.Wrong = append(answer.Wrong, why)
	}
	answer.Healthy = len(answer.Wrong) == 0
	return answer, nil
}

// noScheduler says why no scheduler leads, or why its report is not known. It returns "" if one leads and reports.
func (a *statusAnswer) noScheduler(o *options) string {
	see := "see kubectl get pods -n " + o.schedulerNamespace
	age, known := o.age(metav1.NewTime(a.Status.Updated)), a.Scheduler != nil && a.Scheduler.Exists
	// A leader that is new has had no time to report.
	fresh, old := known && o.now().Sub(a.Scheduler.Acquired.Time) <= staleAfter, o.now().Sub(a.Status.Updated) > staleAfter
	switch {
	case known && a.Scheduler.Holder == "":
		return "no scheduler is the leader: its lease is free; " + see
	case known && a.Scheduler.Expired:
		return fmt.Sprintf("the scheduler has not renewed its lease for %s: no scheduler is the leader; %s", o.age(a.Scheduler.Renewed), see)
	case known && old && !fresh:
		return fmt.Sprintf("the last report is %s old, and %s holds the lease: it cannot write ConfigMap %s/%s; %s", age, a.Scheduler.process(), o.schedulerNamespace, statusmap.Name, see)
	case !known && old:
		return fmt.Sprintf("the last report is %s old: no scheduler is the leader, or the leader cannot write ConfigMap %s/%s; %s", age, o.schedulerNamespace, statusmap.Name, see)
	case known && a.Scheduler.process() != a.Status.Leader:
		return fmt.Sprintf("%s leads and has not reported yet: the report is by %s, which led before", a.Scheduler.process(), a.Status.Leader)
	case known && a.Status.Updated.Before(a.Scheduler.Acquired.Truncate(time.Second)):
		// An earlier process of the same pod or host has the same name.
		return fmt.Sprintf("%s has led for %s and has not reported yet: an earlier process wrote the report of %s ago", a.Scheduler.process(), o.age(a.Scheduler.Acquired), age)
	}
	return ""
}

// wrongWithMatcher says what is wrong with the matcher of the scheduler that leads, and by how old a report.
func (a *statusAnswer) wrongWithMatcher(o *options) []string {
	var wrong []string
	reported := ""
	if o.now().Sub(a.Status.Updated) > mentionedAfter {
		reported = fmt.Sprintf(" (reported %s ago)", o.age(metav1.NewTime(a.Status.Updated)))
	}
	switch status := a.Status; {
	case !status.MatcherAnswers:
		wrong = append(wrong, "the matcher does not answer"+reported+": groups wait until it does; see the sidecar's log")
	case a.Unanswered > 0:
		wrong = append(wrong, fmt.Sprintf("%s with the reason %s, written after the report of %s ago: the matcher does not answer; see the sidecar's log",
			groupsWait(a.Unanswered), reason.MatcherUnavailable, o.age(metav1.NewTime(status.Updated))))
	}
	if a.Status.Epoch == 0 || a.Status.WhyNotLoaded != "" {
		text := "the matcher's graph is not loaded" + reported + ": groups wait until it is loaded"
		if a.Status.Epoch != 0 {
			text = "the matcher cannot load the latest graph" + reported + ": groups may wait, or be placed without the newest nodes, until it can"
		}
		if a.Status.WhyNotLoaded != "" {
			text += "; the matcher says: " + a.Status.WhyNotLoaded
		}
		wrong = append(wrong, text)
	}
	return wrong
}

// noController says why no controller works. It returns "" if one does, or if that is not known.
func (a *statusAnswer) noController(o *options) string {
	const follows = ": no PodGroups are made, and their phases are old; see kubectl get pods -n "
	switch l := a.Controller; {
	case l == nil:
		return ""
	case !l.Exists:
		return fmt.Sprintf("no controller has held Lease %s/%s%s%s", o.schedulerNamespace, podgroup.FieldManager, follows, o.schedulerNamespace)
	case l.Holder == "":
		return "no controller works: its lease is free" + follows + o.schedulerNamespace
	case l.Expired:
		return fmt.Sprintf("the controller has not renewed its lease for %s%s%s", o.age(l.Renewed), follows, o.schedulerNamespace)
	}
	return ""
}

func groupsWait(n int) string {
	if n == 1 {
		return "1 group waits"
	}
	return fmt.Sprintf("%d groups wait", n)
}

func (o *options) writeStatus(w io.Writer, r statusAnswer) error {
	if r.Healthy {
		fmt.Fprintln(w, o.paint(green, fmt.Sprintf("Scheduler healthy (reported %s ago)", o.age(metav1.NewTime(r.Status.Updated)))))
	}
	for _, wrong := range r.Wrong {
		fmt.Fprintln(w, o.paint(red, "Unhealthy:"), wrong)
	}
	f := r.Status
	if f == nil {
		return nil
	}
	updated := o.age(metav1.NewTime(f.Updated))
	answers := "answers"
	switch {
	case r.noScheduler(o) != "":
		answers = fmt.Sprintf("unknown (the report of %s ago is no longer true)", updated)
	case !f.MatcherAnswers, r.Unanswered > 0:
		answers = "does not answer"
	}
	leader := fmt.Sprintf("%s, version %s", dash(f.Leader), dash(f.Version))
	if p := r.Scheduler.process(); p != "" && p != f.Leader {
		leader = p
	}
	return table(w, [][]string{
		{"Leader", leader + o.renewed(r.Scheduler)},
		{"Controller", dash(r.Controller.process()) + o.renewed(r.Controller)},
		{"Updated", updated + " ago; the lines below are from then"},
		{"Matcher", answers},
		{"Graph", fmt.Sprintf("%s; %s; epoch %d", reason.Plural(f.Nodes, "node"), holdRoom(f.PodsWithRoom), f.Epoch)},
		{"Drift", reason.Plural(int(f.Drift), "difference") + " since the leader was started"},
		{"Groups", dash(counts(f.GroupsByPhase, 0))},
		{"Waiting for", dash(counts(f.WaitingByReason, 0))},
		{"Last match", o.ago(f.LastMatch)},
	})
}

func holdRoom(pods int) string {
	if pods == 1 {
		return "1 pod holds resources"
	}
	return fmt.Sprintf("%d pods hold resources", pods)
}

func (o *options) ago(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return o.age(metav1.NewTime(*t)) + " ago"
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
