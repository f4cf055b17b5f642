package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/flux-k8s/fluence/sidecar/client"
)

func probeCommand() *cobra.Command {
	listen, timeout := defaults().listen, 2*time.Second
	c := &cobra.Command{
		Use:   "probe",
		Short: "Say whether the sidecar takes calls",
		Long: `Ask a sidecar that runs whether it takes calls, as a kubelet's probe does. A matcher that
is stuck in a call gives no answer; one that is at work for a call does.

Exit codes: 0 it does, 1 it does not.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return probe(c.Context(), listen, timeout)
		},
	}
	c.Flags().StringVar(&listen, "listen", listen, "the sidecar's --listen address: unix:///path, or tcp://host:port on a loopback address")
	c.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the answer")
	return c
}

// probe fails if the sidecar gives no answer in time. A sidecar that works on a call answers.
func probe(ctx context.Context, target string, timeout time.Duration) error {
	if timeout <= 0 {
		return fmt.Errorf("--timeout %s: must be above 0", timeout)
	}
	sidecar, err := client.Dial(target, client.Options{Timeout: timeout})
	if err != nil {
		return err
	}
	defer sidecar.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := sidecar.Ping(ctx); err != nil && !errors.Is(err, client.ErrOccupied) {
		return fmt.Errorf("probe %s: %w", target, err)
	}
	return nil
}
