// Command fluence-run starts a control plane with simulated nodes and Fluence, and places
// a first Job. All of it runs on after the command. The command also takes it down.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

func command() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "fluence-run",
		Short:         "Try Fluence on a control plane of your own, on this machine",
		SilenceUsage:  true,
		SilenceErrors: false,
	}
	var dir string
	cmd.PersistentFlags().StringVar(&dir, "dir", ".run", "folder of the cluster's state")
	nodes, racks := 16, 4
	up := &cobra.Command{
		Use:   "up",
		Short: "Bring everything up and place a Job of 8",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return up(cmd.Context(), cmd.OutOrStdout(), dir, nodes, racks)
		},
	}
	up.Flags().IntVar(&nodes, "nodes", nodes, "how many simulated nodes")
	up.Flags().IntVar(&racks, "racks", racks, "in how many racks")
	down := &cobra.Command{
		Use:   "down",
		Short: "Stop everything and remove its state",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cluster.Down(cmd.Context(), dir); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "Everything is stopped.")
			return nil
		},
	}
	cmd.AddCommand(up, down)
	return cmd
}

// rackLabel is the node label of the racks, which are a level of the graph.
const rackLabel = "topology.fluence.flux-framework.org/rack"

// upTimeout bounds everything, compiling included.
const upTimeout = 45 * time.Minute

func up(ctx context.Context, out io.Writer, dir string, nodes, racks int) error {
	if nodes < 1 || racks < 1 {
		return fmt.Errorf("--nodes=%d --racks=%d: both must be at least 1", nodes, racks)
	}
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	start := time.Now()
	fmt.Fprintf(out, "Starting a control plane with %d nodes in %d racks; the first time its programs are compiled, which takes a quarter of an hour\n", nodes, racks)
	if err := cluster.Down(ctx, dir); err != nil {
		return fmt.Errorf("end an earlier run: %w", err)
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Dir:            dir,
		Detached:       true,
		StockScheduler: true,
		Log:            out,
		Nodes: cluster.Nodes{
			Count: nodes,
			Labels: func(i int) map[string]string {
				return map[string]string{rackLabel: fmt.Sprintf("rack%d", i*racks/nodes)}
			},
		},
	})
	if err != nil {
		return err
	}
	commands, err := place(ctx, out, c, dir)
	if err != nil {
		return errors.Join(err, cluster.Down(context.WithoutCancel(ctx), dir))
	}
	fmt.Fprintf(out, "\nDone in %.0fs. Everything is left running; `make down` stops it. To look around:\n\n    export KUBECONFIG=%s PATH=%s:$PATH\n\n",
		time.Since(start).Seconds(), c.Kubeconfig(), commands)
	return nil
}

// place installs and starts Fluence, and creates a Job
// of 8. It returns the folder of the commands for users.
func place(ctx context.Context, out io.Writer, c *cluster.Cluster, dir string) (commands string, err error) {
	// Simulated nodes run no programs, so processes replace the chart's pods.
	s, err := stack.Start(ctx, c, stack.Config{
		Chart: &stack.Chart{Set: []string{"replicas=0", "scheduler.args.topologyLevels={" + rackLabel + "}"}},
		Log:   out,
	})
	if err != nil {
		return "", err
	}
	if commands, err = link(c, s, dir); err != nil {
		return "", err
	}
	return commands, firstJob(ctx, out, s)
}

// link makes a folder with the commands that a user types.
func link(c *cluster.Cluster, s *stack.Stack, dir string) (string, error) {
	commands := filepath.Join(dir, "bin")
	if err := os.MkdirAll(commands, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of commands: %w", err)
	}
	for name, path := range map[string]string{
		"kubectl":           c.Binaries().Kubectl,
		"helm":              c.Binaries().Helm,
		stack.KubectlPlugin: filepath.Join(s.Built(), stack.KubectlPlugin),
	} {
		if err := os.Symlink(path, filepath.Join(commands, name)); err != nil {
			return "", fmt.Errorf("make the folder of commands: %w", err)
		}
	}
	return commands, nil
}

func firstJob(ctx context.Context, out io.Writer, s *stack.Stack) error {
	// Users may want to try exclusive groups here.
	if _, _, err := s.Kubectl(ctx, "label", "namespace", "default", group.WholeNodesLabel+"="+group.WholeNodesAllowed); err != nil {
		return err
	}
	fmt.Fprintln(out, "Applying manifests/examples/job.yaml, a Job of 8 pods")
	if _, _, err := s.Kubectl(ctx, "apply", "-f", s.Example("job.yaml")); err != nil {
		return err
	}
	name, err := s.WaitPlaced(ctx, "default", 1)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"get", "fpg"},
		{"get", "pods", "-o", "custom-columns=NAME:.metadata.name,STATUS:.status.phase,NODE:.spec.nodeName"},
		{"describe", "podgroups.scheduling.x-k8s.io", name},
	} {
		fmt.Fprintf(out, "\n$ kubectl %s\n", strings.Join(args, " "))
		text, _, err := s.Kubectl(ctx, args...)
		if err != nil {
			return err
		}
		fmt.Fprint(out, text)
	}
	return nil
}
