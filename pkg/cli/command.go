// Package cli implements kubectl fluence. It shows where pods
// and groups are, why a group waits, and where one would go.
//
// It reads once what its user may read, and writes nothing.
package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	// now returns the present time.
	now func() time.Time
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
	// Now returns the present time.
	Now func() time.Time
	// Terminal is true if Out is a terminal, which shows colours.
	Terminal bool
	// Version is the version of the program.
	Version string
}

// Run runs a command line and returns its exit code.
func Run(ctx context.Context, c Config, args []string) (code int) {
	defer func() {
		if panicked := recover(); panicked != nil {
			fmt.Fprintf(c.ErrOut, "error: %v: this is a fault of kubectl fluence: please report it with what follows\n%s", panicked, debug.Stack())
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
		return fmt.Errorf("%w: your credentials are not accepted, or not any longer: log in again, or name another context by --context", err)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		if at, wrong := url.Parse(failed.URL); wrong == nil {
			return fmt.Errorf("the API server at %s cannot be asked: %w; see --context, --server and whether it runs", at.Host, failed.Err)
		}
	}
	return err
}

// command returns the root command with all its subcommands.
func command(c Config) *cobra.Command {
	o := &options{IOStreams: c.IOStreams, flags: genericclioptions.NewConfigFlags(true), now: c.Now, terminal: c.Terminal}
	cmd := &cobra.Command{
		Use:   "kubectl-fluence",
		Short: "See what Fluence does: where groups stand, why one waits, where one would go",
		Long: `See what Fluence does: where groups stand, why one waits, where one would go.

It reads what you may read, once, and writes nothing. What the scheduler has promised
to a group and the API does not show yet is not in what it tells.

All flags of kubectl that say which cluster and who asks are taken: see kubectl options.

Exit codes: 0 yes, 1 error, 2 no: the group waits or would not fit, or the scheduler
does not say that it is well.`,
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
	f.StringVar(&o.config, "config", "", "the scheduler's configuration, a file; by default what the chart installed is read, or else what Fluence is shipped with")
	f.StringSliceVar(&o.levels, "topology-levels", nil, "node labels that make the levels between cluster and nodes, the outermost first; over those of the configuration")
	f.StringVar(&o.schedulerNamespace, "scheduler-namespace", "fluence-system", "where the scheduler runs")
	f.StringVar(&o.color, "color", "auto", "auto (on a terminal), always or never")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long all of it may take")
	hide(f)
	cmd.AddCommand(o.groupsCommand(), o.whyCommand(), o.nodesCommand(), o.graphCommand(), o.simulateCommand(), o.statusCommand())
	return cmd
}

// hide removes most of kubectl's own flags from the
// help, so that the flags of this program are seen.
func hide(f *pflag.FlagSet) {
	for _, name := range []string{
		"as-group", "as-uid", "as-user-extra", "cache-dir", "certificate-authority", "client-certificate", "client-key",
		"cluster", "disable-compression", "insecure-skip-tls-verify", "password", "request-timeout", "server", "tls-server-name",
		"token", "user", "username",
	} {
		if flag := f.Lookup(name); flag != nil {
			flag.Hidden = true
		}
	}
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
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done after %s: give it longer by --timeout", o.timeout))
	defer cancel()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}
