// Command fluence-cluster starts a control plane with simulated nodes
// on this machine, and ends it. The control plane outlives the command.
//
//	fluence-cluster up --dir DIR --nodes 16 --racks 4
//	fluence-cluster kubeconfig --dir DIR
//	fluence-cluster down --dir DIR
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/tools"
)

const (
	// upTimeout is enough to build everything on a slow machine.
	upTimeout = time.Hour
	// downTimeout is enough for a running up to end.
	downTimeout = 5 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fluence-cluster:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "fluence-cluster",
		Short:         "Run a Kubernetes control plane with simulated nodes on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newUp(), newDown(), newKubeconfig(), newBuild())
	return root
}

// dirFlag adds the flag that every command on a running cluster needs.
func dirFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "folder of the cluster's state")
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		panic(err) // the flag is the line above
	}
}

func newDown() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End the cluster and remove its state",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), downTimeout)
			defer cancel()
			return cluster.Down(ctx, dir)
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}

func newKubeconfig() *cobra.Command {
	var dir, user string
	var groups []string
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of a kubeconfig file",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := cluster.Open(dir)
			if err != nil {
				return err
			}
			path := c.Kubeconfig()
			if user != "" {
				if path, err = c.KubeconfigFor(user, groups...); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), path)
			return err
		},
	}
	dirFlag(cmd, &dir)
	cmd.Flags().StringVar(&user, "user", "", "user to act as; an administrator unless set")
	cmd.Flags().StringSliceVar(&groups, "group", nil, "groups of the user")
	return cmd
}

func newBuild() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the programs that a cluster consists of, and the operators, if they are not there",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), upTimeout)
			defer cancel()
			if _, err := tools.Build(ctx, cmd.ErrOrStderr()); err != nil {
				return err
			}
			_, err := tools.BuildOperators(ctx, cmd.ErrOrStderr())
			return err
		},
	}
}
