// Command fluence-sidecar serves a resource graph and its matcher to the scheduler
// beside it. Its subcommands use the matcher themselves, without Kubernetes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/flux-k8s/fluence/pkg/heapfloor"
	"github.com/flux-k8s/fluence/sidecar/command"
)

// version is the release, set by the linker: -X main.version=v1.2.3.
var version = "devel"

// heapFloor is the size of the heap, in bytes, below which garbage is not collected.
const heapFloor = 64 << 20

func main() {
	heapfloor.Set(heapFloor)
	// The first signal asks for an orderly end. It also restores the default
	// action of the signals, so that a second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop)
	err := newCommand(openEngine).ExecuteContext(ctx)
	code, tell := command.ExitCode(err)
	if tell {
		fmt.Fprintln(os.Stderr, "fluence-sidecar:", err)
	}
	os.Exit(code)
}

// newCommand returns the command. Its subcommands use the engines of open.
func newCommand(open command.Opener) *cobra.Command {
	o := defaults()
	c := &cobra.Command{
		Use:   "fluence-sidecar",
		Short: "Serve a resource graph and its matcher to the scheduler beside it",
		Long: `Serve a resource graph and its matcher over gRPC.

The graph is empty at the start: the scheduler fills it, and fills it again after
a restart of either. Nothing is kept on disk. SIGTERM and SIGINT let running calls
come to their end and then end the process.

The subcommands match, satisfy and info serve nothing: they load a graph from a file
and ask the matcher themselves. The subcommand probe asks a sidecar that runs whether it
takes calls.`,
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return run(c.Context(), o, c.ErrOrStderr())
		},
	}
	o.addFlags(c.Flags())
	c.CompletionOptions.DisableDefaultCmd = true
	c.AddCommand(command.Match(open), command.Satisfy(open), command.Info(open), probeCommand())
	return c
}
