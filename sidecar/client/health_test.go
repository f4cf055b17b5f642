package client_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/client"
)

// watch starts a watch and returns its reports.
func watch(t *testing.T, c *client.Client) <-chan bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan bool, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Watch(ctx, func(serving bool) { said <- serving })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return said
}

func next(ctx context.Context, t *testing.T, said <-chan bool, want bool) {
	t.Helper()
	select {
	case got := <-said:
		if got != want {
			t.Fatalf("the watch says %v, want %v", got, want)
		}
	case <-ctx.Done():
		t.Fatalf("the watch does not say %v", want)
	}
}

func TestAServerThatIsKilledAndReturns(t *testing.T) {
	ctx := soon(t)
	path := filepath.Join(t.TempDir(), "s")
	c := dial(t, path, client.Options{})
	said := watch(t, c)
	next(ctx, t, said, false)

	kill := serve(t, path, newEngine(t))
	next(ctx, t, said, true)
	before, err := c.Reset(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PutNode(ctx, before, matchtest.Node("n", nil, matchtest.Cores(1))); err != nil {
		t.Fatal(err)
	}

	kill()
	next(ctx, t, said, false)
	if err := c.Ready(ctx, before); !errors.Is(err, match.ErrUnavailable) {
		t.Errorf("while nobody serves: got %v", err)
	}

	returned := time.Now()
	serve(t, path, newEngine(t))
	next(ctx, t, said, true)
	// Work goes on within a second of the return. A busy machine may add a second.
	if took := time.Since(returned); took > 2*time.Second {
		t.Errorf("the watch took %v to see that the server is back", took)
	}
	if err := c.Ready(ctx, before); !errors.Is(err, match.ErrStale) {
		t.Errorf("an epoch of the engine before: got %v", err)
	}
	after, err := c.Reset(ctx)
	if err != nil || after == before {
		t.Fatalf("reset: %d, %v, and the epoch before was %d", after, err, before)
	}
	if err := c.Ready(ctx, after); err != nil {
		t.Errorf("an epoch of the new engine: %v", err)
	}
}

func TestACallThatIsCutOffIsUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fake := matchtest.NewFake()
	defer fake.Hold(matchtest.Reset)()
	kill := serve(t, path, fake)
	c := dial(t, path, client.Options{})
	ctx := soon(t)
	done := make(chan error, 1)
	go func() { _, err := c.Reset(ctx); done <- err }()
	if _, err := fake.Await(ctx, matchtest.Reset, 1); err != nil {
		t.Fatal(err)
	}
	kill()
	if err := <-done; !errors.Is(err, match.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestAClosedClientIsUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	serve(t, path, matchtest.NewFake())
	c := dial(t, path, client.Options{})
	// A server that is stopped before it serves fails.
	if err := c.Ping(soon(t)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reset(soon(t)); !errors.Is(err, match.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestPing(t *testing.T) {
	serving := filepath.Join(t.TempDir(), "s")
	serve(t, serving, matchtest.NewFake())
	if err := dial(t, serving, client.Options{}).Ping(soon(t)); err != nil {
		t.Errorf("a server that serves: %v", err)
	}
	nobody := filepath.Join(t.TempDir(), "s")
	for what, path := range map[string]string{"nobody": nobody, "a process that is stopped": stopped(t)} {
		c := dial(t, path, client.Options{Timeout: time.Hour})
		start := time.Now()
		// Without a deadline the wait is half a second.
		if err := c.Ping(t.Context()); !errors.Is(err, match.ErrUnavailable) {
			t.Errorf("%s: got %v", what, err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: took %v", what, took)
		}
	}
}

// A sidecar answers a probe while its graph is being loaded.
func TestPingIsAnsweredWhileTheGraphIsBeingFilled(t *testing.T) {
	ctx, path := soon(t), filepath.Join(t.TempDir(), "s")
	serve(t, path, newEngine(t))
	c := dial(t, path, client.Options{})
	epoch, err := c.Reset(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := c.PutNode(ctx, epoch, matchtest.Node("n", nil, matchtest.Cores(1))); err != nil {
			t.Fatal(err)
		}
		if err := c.Ping(ctx); err != nil {
			t.Errorf("before the graph is ready: %v", err)
		}
	}
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	c := dial(t, stopped(t), client.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Watch(ctx, func(serving bool) {
			if serving {
				t.Error("a process that says nothing is said to serve")
			}
			cancel()
		})
	}()
	select {
	case <-done:
	case <-soon(t).Done():
		t.Error("the watch goes on")
	}
}
