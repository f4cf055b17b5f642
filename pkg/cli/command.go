// Package cli implements kubectl fluence. It shows where pods
// and groups are, why a group waits, and where one would go.
//
// It reads the objects that its user may read. It reads them once, except to watch groups, or to wait
// for a reason. Only the commands that hold, release and cancel jobs in queues write.
package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// The exit codes.
const (
	// ExitYes means yes, or success for a command without a yes or no.
	ExitYes = 0
	// ExitError means that the question could not be answered.
	ExitError = 1
	// ExitNo means that the answer is no: the group waits or would
	// not fit, or the scheduler does not report that it is healthy.
	ExitNo = 2
)

// errNo ends a command whose answer is no. The output has the answer.
var errNo = errors.New("no")

// options are shared by all commands.
type options struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
	// now returns the current time.
	now func() time.Time
	// after returns a channel on which something comes after a pause.
	after func(time.Duration) <-chan time.Time
	// terminal is true if the output is a terminal.
	terminal bool

	config             string
	levels             []string
	schedulerNamespace string
	color              string
	timeout            time.Duration
}

// Config is the configuration of Run.
type Config struct {
	genericiooptions.IOStreams
	// Now returns the current time.
	Now func() time.Time
	// After waits for pauses as time.After does. If it is nil, it is time.After.
	After func(time.Duration) <-chan time.Time
	// Terminal is true if Out is a terminal, which shows colours.
	Terminal bool
	// Version is the version of the program.
	Version string
}

// Run runs a command line and returns its exit code.
func Run(ctx context.Context, c Config, args []string) (code int) {
	defer func() {
		if panicked := recover(); panicked != nil {
			fmt.Fprintf(c.ErrOut, "error: internal error in kubectl fluence: %v; please report it together with this stack:\n%s", panicked, debug.Stack())
			code = ExitError
		}
	}()
	cmd := command(c)
	cmd.SetArgs(args)
	switch err := cmd.ExecuteContext(ctx); {
	case err == nil:
		return ExitYes
	case errors.Is(err, errNo):
		return ExitNo
	default:
		fmt.Fprintf(c.ErrOut, "error: %v\n", withAdvice(err))
		return ExitError
	}
}

// withAdvice adds advice to errors that can come from any request.
func withAdvice(err error) error {
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%w: the API server does not accept your credentials: log in again, or choose another context with --context", err)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		if at, wrong := url.Parse(failed.URL); wrong == nil {
			return fmt.Errorf("cannot reach the API server at %s: %w; check --context and --server, and that it is running", at.Host, failed.Err)
		}
	}
	return err
}

// command returns the root command with all its subcommands.
func command(c Config) *cobra.Command {
	o := &options{IOStreams: c.IOStreams, flags: genericclioptions.NewConfigFlags(true), now: c.Now, after: c.After, terminal: c.Terminal}
	if o.after == nil {
		o.after = time.After
	}
	cmd := &cobra.Command{
		Use:   "kubectl-fluence",
		Short: "See what Fluence does: which groups wait and why, and where a group would be placed",
		Long: `See what Fluence does: which groups wait and why, and where a group would be placed.

It reads the objects that you may read. Only hold, release and cancel write, with your own
rights. Nodes that the scheduler has chosen for pods that are not bound yet count as free.

It accepts kubectl's flags for the cluster and the user: see kubectl fluence options.

Exit codes: 0 yes, 1 error, 2 no: the group waits or would not fit, or the scheduler
is not healthy, or its last report is old.`,
		Version:       c.Version,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl fluence"},
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return o.validate()
		},
	}
	cmd.SetIn(c.In)
	cmd.SetOut(c.Out)
	cmd.SetErr(c.ErrOut)
	f := cmd.PersistentFlags()
	o.flags.AddFlags(f)
	f.StringVar(&o.config, "config", "", "file with the scheduler's configuration; by default the one that the chart installed, or else Fluence's default")
	f.StringSliceVar(&o.levels, "topology-levels", nil, "node labels of the topology levels, outermost first; overrides topologyLevels of the configuration")
	f.StringVar(&o.schedulerNamespace, "scheduler-namespace", "fluence-system", "namespace of the scheduler")
	f.StringVar(&o.color, "color", "auto", "auto (on a terminal), always or never")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "time limit of the whole command")
	o.registerCompletions(cmd)
	cmd.AddCommand(o.clusterCommand(), o.groupsCommand(), o.queuesCommand(), o.jobsCommand(), o.holdCommand(), o.releaseCommand(), o.cancelCommand(), o.whyCommand(), o.whenCommand(), o.nodesCommand(), o.graphCommand(), o.simulateCommand(), o.statusCommand(), o.versionCommand(c.Version), optionsCommand())
	cmd.SetUsageTemplate(strings.Replace(cmd.UsageTemplate(), globalFlagsInUsage, optionsInUsage, 1))
	return cmd
}

func (o *options) validate() error {
	switch o.color {
	case "auto", "always", "never":
	default:
		return fmt.Errorf("--color: %q: must be auto, always or never", o.color)
	}
	if o.timeout <= 0 {
		return fmt.Errorf("--timeout: %s: must be above 0", o.timeout)
	}
	return nil
}

// withTimeout runs a command's work with the timeout that the user gave.
func (o *options) withTimeout(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("timed out after %s: raise --timeout", o.timeout))
	defer cancel()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}
