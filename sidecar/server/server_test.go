package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
	"github.com/flux-k8s/fluence/sidecar/server"
)

// start serves an engine, and returns the server with a connection to it.
func start(t *testing.T, e match.Engine) (*server.Server, *grpc.ClientConn) {
	t.Helper()
	return startWith(t, e, server.Options{Log: slog.New(slog.DiscardHandler)})
}

// startWith is start with options.
func startWith(t *testing.T, e match.Engine, o server.Options) (*server.Server, *grpc.ClientConn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(e, o)
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
	return s, conn
}

// soon bounds what a test waits for.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// running makes a call, and returns when the engine has it. The channel returns how the call ended.
func running(ctx context.Context, t *testing.T, fake *matchtest.Fake, conn *grpc.ClientConn) <-chan error {
	t.Helper()
	reset := make(chan error, 1)
	go func() {
		_, err := fluxionpb.NewFluxionClient(conn).Reset(ctx, &fluxionpb.ResetRequest{})
		reset <- err
	}()
	if _, err := fake.Await(ctx, matchtest.Reset, 1); err != nil {
		t.Fatal(err)
	}
	return reset
}

func TestACallWithoutADeadlineIsRefused(t *testing.T) {
	fake := matchtest.NewFake()
	_, conn := start(t, fake)
	rpc := fluxionpb.NewFluxionClient(conn)
	ctx, cancel := context.WithCancel(t.Context()) // and no deadline
	defer cancel()
	calls := map[string]func() error{
		"of one message": func() error {
			_, err := rpc.Reset(ctx, &fluxionpb.ResetRequest{})
			return err
		},
		"that streams its answer": func() error {
			stream, err := rpc.Jobs(ctx, &fluxionpb.JobsRequest{})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		},
		"that streams its arguments": func() error {
			stream, err := rpc.Update(ctx)
			if err != nil {
				return err
			}
			_, err = stream.CloseAndRecv()
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			if err := fluxionpb.FromStatus(status.Convert(call())); !errors.Is(err, match.ErrInvalid) {
				t.Errorf("got %v", err)
			}
		})
	}
	if calls := fake.Calls(); len(calls) > 0 {
		t.Errorf("the engine was called: %v", calls)
	}
}

func TestTheServerEndsACallAtItsDeadline(t *testing.T) {
	fake := matchtest.NewFake()
	defer fake.Hold(matchtest.Reset)()
	_, conn := start(t, fake)
	// Connecting takes additional time.
	if _, err := healthpb.NewHealthClient(conn).Check(soon(t), &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	// The deadline goes to the server, not to this side.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	stream, err := fluxionpb.NewFluxionClient(conn).Update(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// The client never ends its stream. The server must not wait for it.
	if err := stream.RecvMsg(&fluxionpb.UpdateResponse{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
	if calls := fake.Calls(matchtest.Update); len(calls) > 0 {
		t.Errorf("a stream without an end reached the engine: %v", calls)
	}
}

func TestStopLetsRunningCallsEnd(t *testing.T) {
	fake := matchtest.NewFake()
	release := fake.Hold(matchtest.Reset)
	s, conn := start(t, fake)
	ctx := soon(t)
	// A health watch never ends by itself, and must not keep the server.
	watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := watch.Recv(); err != nil || m.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("health: %v, %v", m, err)
	}
	reset := running(ctx, t, fake, conn)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(ctx) }()
	for err == nil { // until the watch gets the change, or ends
		_, err = watch.Recv()
	}
	select {
	case err := <-stopped:
		t.Fatalf("the server stopped while a call ran: %v", err)
	default:
	}
	release()
	if err := <-reset; err != nil {
		t.Errorf("the running call: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestStopCutsCallsOffAtItsBound(t *testing.T) {
	fake := matchtest.NewFake()
	defer fake.Hold(matchtest.Reset)()
	s, conn := start(t, fake)
	ctx := soon(t)
	reset := running(ctx, t, fake, conn)
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Stop(over); !errors.Is(err, context.Canceled) {
		t.Errorf("stop: %v", err)
	}
	if err := <-reset; status.Code(err) != codes.Unavailable {
		t.Errorf("the running call: %v", err)
	}
}

func TestHealthSaysThatTheServiceServes(t *testing.T) {
	_, conn := start(t, matchtest.NewFake())
	// Probes send no deadline to the server, and need none.
	for _, name := range []string{"", "fluence.v1.Fluxion"} {
		m, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil || m.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("service %q: %v, %v", name, m, err)
		}
	}
}

// A signal may come while the process is still starting.
func TestServingAfterStopEndsWell(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(matchtest.NewFake(), server.Options{Log: slog.New(slog.DiscardHandler)})
	if err := s.Stop(soon(t)); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := s.Serve(l); err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is left: %v", err)
	}
}
