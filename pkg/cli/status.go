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

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/statusmap"
)

// staleAfter is the age above which a report is stale: the scheduler seems to have stopped writing
// it.
const staleAfter = statusmap.MaxWriteInterval + 2*statusmap.MinWriteInterval

// A statusAnswer is the answer of the command status.
type statusAnswer struct {
	// Healthy is true if the report is recent, and the matcher answers and has its graph.
	Healthy bool `json:"healthy"`
	// Wrong has the reasons for which the scheduler is not healthy.
	Wrong  []string          `json:"wrong,omitempty"`
	Status *statusmap.Status `json:"figures,omitempty"`
}

func (o *options) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the scheduler, as it last reported it",
		Long: `Show the state of the scheduler, as it last reported it. The scheduler that is the
leader writes the report into ConfigMap ` + statusmap.Name + ` of its namespace.

Exit codes: 0 the scheduler is healthy, 1 error, 2 it is not healthy, or its last report is old.`,
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
	if err := f.print(o.Out, answer, func(w io.Writer) error { return o.writeStatus(w, answer) }); err != nil {
		return err
	}
	if !answer.Healthy {
		return errNo
	}
	return nil
}

// readStatus reads the report of the scheduler and checks it.
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
	if age := o.now().Sub(status.Updated); age > staleAfter {
		answer.Wrong = append(answer.Wrong, fmt.Sprintf("the last report is %s old: no scheduler is the leader, or the leader cannot write ConfigMap %s; see kubectl get pods -n %s", o.age(metav1.NewTime(status.Updated)), name, o.schedulerNamespace))
	}
	if !status.MatcherAnswers {
		answer.Wrong = append(answer.Wrong, "the matcher does not answer: groups wait until it does; see the sidecar's log")
	}
	if status.Epoch == 0 || status.WhyNotLoaded != "" {
		wrong := "the matcher's graph is not loaded: groups wait until it is loaded"
		if status.Epoch != 0 {
			wrong = "the matcher cannot load the latest graph: groups may wait, or be placed without the newest nodes, until it can"
		}
		if status.WhyNotLoaded != "" {
			wrong += "; the matcher says: " + status.WhyNotLoaded
		}
		answer.Wrong = append(answer.Wrong, wrong)
	}
	answer.Healthy = len(answer.Wrong) == 0
	return answer, nil
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
	answers := "answers"
	if !f.MatcherAnswers {
		answers = "does not answer"
	}
	return table(w, [][]string{
		{"Leader", fmt.Sprintf("%s, version %s", dash(f.Leader), dash(f.Version))},
		{"Updated", o.age(metav1.NewTime(f.Updated)) + " ago"},
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
		return "1 pod has resources"
	}
	return fmt.Sprintf("%d pods have resources", pods)
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
