package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/flux-k8s/fluence/test/cluster"
)

// supervise returns the command that up leaves running. It ends by SIGTERM, as down sends it,
// and when the cluster's folder is removed.
func supervise(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:    "supervise",
		Short:  "Start the programs of the cluster again when they end",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cluster.Supervise(cmd.Context(), *dir, cmd.OutOrStdout())
		},
	}
}

// startSupervisor starts this program as the supervisor of a cluster. Its log is supervisor.log.
func startSupervisor(ctx context.Context, c *cluster.Cluster) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	_, err = c.StartProcess(ctx, cluster.Supervisor, self, "supervise", "--dir", c.Dir())
	return err
}
