package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
	"github.com/flux-k8s/fluence/sidecar/server"
)

func TestAFailedReadyIsLoggedOnceForEachNewReason(t *testing.T) {
	var log bytes.Buffer // Only this test's calls write to it, one after the other.
	fake := matchtest.NewFake()
	_, conn := startWith(t, fake, server.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	rpc := fluxionpb.NewFluxionClient(conn)
	closed, full := errors.New("the table is closed"), errors.New("out of memory")
	for i, err := range []error{
		closed, closed, fmt.Errorf("%w: epoch 1", match.ErrStale), closed, fmt.Errorf("%w: loading", match.ErrUnavailable), full, nil, full,
	} {
		fake.Fail(matchtest.Ready, err)
		if _, got := rpc.Ready(soon(t), &fluxionpb.ReadyRequest{Epoch: 1}); (got == nil) != (err == nil) {
			t.Fatalf("call %d: Ready() = %v, want %v", i, got, err)
		}
	}
	var reasons []string
	for line := range strings.Lines(log.String()) {
		if _, reason, ok := strings.Cut(line, "reason="); ok && strings.Contains(line, "level=WARN") {
			reasons = append(reasons, strings.TrimSpace(reason))
		}
	}
	if got, want := strings.Join(reasons, " "), `"the table is closed" "out of memory" "out of memory"`; got != want {
		t.Errorf("logged are %s, want %s", got, want)
	}
}
