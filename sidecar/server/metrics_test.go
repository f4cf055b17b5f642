package server_test

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
	"github.com/flux-k8s/fluence/sidecar/server"
)

// told serves an engine with metrics, and returns a client of it.
func told(t *testing.T, metrics func() ([]byte, error)) fluxionpb.FluxionClient {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(matchtest.NewFake(), server.Options{Log: slog.New(slog.DiscardHandler), Metrics: metrics})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Stop(over)
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		_ = conn.Close()
	})
	return fluxionpb.NewFluxionClient(conn)
}

func TestMetrics(t *testing.T) {
	cases := map[string]struct {
		metrics func() ([]byte, error)
		want    codes.Code
	}{
		"figures":           {metrics: func() ([]byte, error) { return []byte("jobs 1\n"), nil }},
		"none are kept":     {want: codes.Unimplemented},
		"they do not come":  {metrics: func() ([]byte, error) { return nil, context.Canceled }, want: codes.Internal},
		"there are so many": {metrics: func() ([]byte, error) { return make([]byte, fluxionpb.MaxMetrics+1), nil }, want: codes.Internal},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := told(t, tc.metrics).Metrics(soon(t), &fluxionpb.MetricsRequest{})
			if status.Code(err) != tc.want || err == nil && string(m.GetText()) != "jobs 1\n" {
				t.Errorf("Metrics() = %q, %v; want %v", m.GetText(), err, tc.want)
			}
		})
	}
	if _, err := told(t, nil).Metrics(context.Background(), &fluxionpb.MetricsRequest{}); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("a question without a deadline: %v", err)
	}
}

// If metrics never come, one goroutine waits for them, however often they are requested.
func TestMetricsThatHang(t *testing.T) {
	var begun atomic.Int32
	hung := make(chan struct{})
	c := told(t, func() ([]byte, error) {
		begun.Add(1)
		<-hung
		return nil, nil
	})
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := c.Metrics(ctx, &fluxionpb.MetricsRequest{}); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("metrics that hang: %v", err)
		}
		cancel()
	}
	if n := begun.Load(); n > 1 {
		t.Errorf("%d wait for figures, want one at most", n)
	}
	close(hung)
	if _, err := c.Metrics(soon(t), &fluxionpb.MetricsRequest{}); err != nil {
		t.Errorf("metrics that come again: %v", err)
	}
}
