package client

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
)

// Metrics returns the metrics of the sidecar's process in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	call, cancel := withDefaultTimeout(ctx, c.options.Timeout)
	defer cancel()
	m, err := c.rpc.Metrics(call, &fluxionpb.MetricsRequest{}, grpc.MaxCallRecvMsgSize(2*fluxionpb.MaxMetrics))
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", callError(ctx, err))
	}
	return m.GetText(), nil
}
