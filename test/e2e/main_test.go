// Package e2e tests Fluence as its users meet it: all three programs as
// processes, on a real control plane with simulated nodes.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

// fluence is the one stack that the stories run on, one after another.
var fluence *stack.Stack

// metricsAddress is where its sidecar serves metrics.
var metricsAddress string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{StockScheduler: true, Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := c.Stop(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if metricsAddress, err = freeAddress(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fluence, err = stack.Start(ctx, c, stack.Config{
		SidecarMetrics: metricsAddress,
		Args:           map[string]any{"topologyLevels": []string{"topology.kubernetes.io/zone"}},
		Verbosity:      4,
		Log:            os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
