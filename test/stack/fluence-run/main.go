// Command fluence-run starts a control plane with simulated nodes and Fluence, and places a first
// Job. All of it runs on after the command, and a supervisor, which is this command too, starts
// what ends again. A second start keeps what is there. The command also takes all of it down.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/flux-k8s/fluence/test/cluster"
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
		Short: "Keep the cluster that is there and update Fluence, or start one and place a Job of 8",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return up(cmd.Context(), cmd.OutOrStdout(), dir, nodes, racks)
		},
	}
	up.Flags().IntVar(&nodes, "nodes", nodes, "how many simulated nodes a new cluster has")
	up.Flags().IntVar(&racks, "racks", racks, "in how many racks they are")
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
	cmd.AddCommand(up, down, supervise(&dir))
	return cmd
}
