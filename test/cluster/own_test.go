package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/flux-k8s/fluence/test/cluster"
)

// own is the main function of the processes that tests start as owners of
// clusters, to see what happens to the clusters. args are "own" and a
// folder for temporary files, or "own-detached" and the cluster's folder.
func own(args []string) {
	if err := startOwn(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func startOwn(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	if args[0] == "own-detached" {
		_, err := cluster.Start(ctx, cluster.Config{
			Dir: args[1], Detached: true, Nodes: cluster.Nodes{Count: 2}, Log: os.Stderr,
		})
		return err
	}
	if err := os.Setenv("TMPDIR", args[1]); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Config{Log: os.Stderr})
	if err != nil {
		return err
	}
	if _, err := c.StartProcess(ctx, "extra", "/bin/sleep", "1000"); err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	fmt.Fprintf(os.Stderr, "the cluster is in %s\n", c.Dir())
	<-signals
	panic(errors.New("as a test may"))
}
