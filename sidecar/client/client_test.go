package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/client"
	"github.com/flux-k8s/fluence/sidecar/endpoint"
	"github.com/flux-k8s/fluence/sidecar/fluxionpb"
	"github.com/flux-k8s/fluence/sidecar/server"
)

// epochs counts up for all engines of a run, because no two may have the same.
var epochs atomic.Uint64

func newEngine(tb testing.TB) match.Engine {
	tb.Helper()
	e, err := engine.New(engine.Options{Epoch: func() match.Epoch { return match.Epoch(epochs.Add(1)) }})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// serve serves an engine at a socket until the returned function
// kills the server: calls are cut off, and the socket is gone.
func serve(tb testing.TB, path string, e match.Engine) (kill func()) {
	tb.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	s := server.New(e, server.Options{Log: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	var killed atomic.Bool
	kill = func() {
		if killed.Swap(true) {
			return
		}
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Stop(over)
		if err := <-served; err != nil {
			tb.Errorf("serve: %v", err)
		}
	}
	tb.Cleanup(kill)
	return kill
}

func dial(tb testing.TB, path string, o client.Options) *client.Client {
	tb.Helper()
	c, err := client.Dial("unix://"+path, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// soon bounds what a test waits for.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestConformance(t *testing.T) {
	dir := t.TempDir() // of the whole test, for the names of its parts are longer than sockets' may be
	n := 0
	matchtest.Test(t, matchtest.Capabilities{
		Divisible:      true,
		Shapes:         true,
		Ranges:         true,
		PartialRelease: true,
		Update:         true,
		Constraints:    true,
		MaxPerLevel:    true,
		Limits:         true,
		Topology:       true,
		Near:           true,
		Ignore:         true,
		Ending:         true,
		Displace:       true,
		Replaces:       true,
		Expected:       true,
		Reasons:        true,
		Reserve:        true,
		Policies:       match.Policies(),
	}, func(t *testing.T) match.Engine {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		serve(t, path, newEngine(t))
		return dial(t, path, client.Options{Timeout: 20 * time.Second})
	})
}

// calls is every call of a client.
func calls(c *client.Client) map[matchtest.Method]func(context.Context) error {
	request := match.Request{ID: 1, Jobspec: matchtest.Slots("w", 1, matchtest.Cores(1))}
	return map[matchtest.Method]func(context.Context) error{
		matchtest.Match:      func(ctx context.Context) error { _, err := c.Match(ctx, request); return err },
		matchtest.Release:    func(ctx context.Context) error { return c.Release(ctx, 1, 1) },
		matchtest.Update:     func(ctx context.Context) error { return c.Update(ctx, 1) },
		matchtest.PutNode:    func(ctx context.Context) error { return c.PutNode(ctx, 1) },
		matchtest.RemoveNode: func(ctx context.Context) error { return c.RemoveNode(ctx, 1, "n") },
		matchtest.SetStatus:  func(ctx context.Context) error { return c.SetStatus(ctx, 1, "n", 0) },
		matchtest.Jobs:       func(ctx context.Context) error { _, err := c.Jobs(ctx, 1); return err },
		matchtest.Nodes:      func(ctx context.Context) error { _, err := c.Nodes(ctx, 1, "", 1); return err },
		matchtest.Reset:      func(ctx context.Context) error { _, err := c.Reset(ctx); return err },
		matchtest.Ready:      func(ctx context.Context) error { return c.Ready(ctx, 1) },

		matchtest.AddSubgraph:    func(ctx context.Context) error { return c.AddSubgraph(ctx, 1, []byte("{}")) },
		matchtest.RemoveSubgraph: func(ctx context.Context) error { return c.RemoveSubgraph(ctx, 1, "/cluster0") },
		matchtest.Find:           func(ctx context.Context) error { _, err := c.Find(ctx, 1, "status=up", matchtest.Now); return err },
	}
}

// stopped opens a socket like a stopped process: the
// kernel accepts connections, and nothing answers.
func stopped(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return path
}

func TestEveryCallComesBackByItsDeadline(t *testing.T) {
	const timeout = 50 * time.Millisecond
	held := filepath.Join(t.TempDir(), "s")
	fake := matchtest.NewFake()
	serve(t, held, fake)
	servers := map[string]string{
		"an engine that never answers": held,
		"a process that is stopped":    stopped(t),
	}
	for what, path := range servers {
		c := dial(t, path, client.Options{Timeout: timeout, LoadTimeout: timeout})
		for method, call := range calls(c) {
			t.Run(fmt.Sprintf("%s of %s", method, what), func(t *testing.T) {
				defer fake.Hold(method)()
				contexts := map[string]func() (context.Context, context.CancelFunc){
					"its own": func() (context.Context, context.CancelFunc) { return context.WithTimeout(soon(t), timeout) },
					"the client's": func() (context.Context, context.CancelFunc) {
						return context.WithCancel(t.Context())
					},
				}
				for whose, of := range contexts {
					ctx, cancel := of()
					start := time.Now()
					err := call(ctx)
					cancel()
					if !errors.Is(err, match.ErrUnavailable) || !strings.HasPrefix(err.Error(), match.ErrUnavailable.Error()+": ") {
						t.Errorf("deadline %s: got %v", whose, err)
					}
					// With a stopped process a connection may fail first.
					if path == held && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("deadline %s: got %v, want that it has passed", whose, err)
					}
					// This is the most that a busy machine may add.
					if took := time.Since(start); took > timeout+5*time.Second {
						t.Errorf("deadline %s: took %v", whose, took)
					}
				}
			})
		}
	}
}

func TestACallThatIsGivenUpIsNoFailureOfTheMatcher(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fake := matchtest.NewFake()
	serve(t, path, fake)
	c := dial(t, path, client.Options{})
	for method, call := range calls(c) {
		t.Run(string(method), func(t *testing.T) {
			defer fake.Hold(method)()
			fake.Forget()
			ctx, cancel := context.WithCancel(soon(t))
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- call(ctx) }()
			if _, err := fake.Await(soon(t), method, 1); err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, match.ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestNobodyListensIsSaidAtOnce(t *testing.T) {
	c := dial(t, filepath.Join(t.TempDir(), "s"), client.Options{Timeout: time.Minute, LoadTimeout: time.Minute})
	ctx := soon(t) // far less than the timeouts
	for method, call := range calls(c) {
		if err := call(ctx); !errors.Is(err, match.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", method, err)
		}
	}
	if ctx.Err() != nil {
		t.Error("the calls waited for their deadline")
	}
}

func TestErrorsOfTheEngineArriveAsTheyWere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fake := matchtest.NewFake()
	serve(t, path, fake)
	c := dial(t, path, client.Options{})
	reason := match.Reason{Code: match.TooFew, Level: "node", Wanted: 4, Found: 3, WaitingHelps: true}
	fake.Refuse(match.ErrBusy, reason)
	_, err := c.Match(soon(t), match.Request{ID: 1, Jobspec: matchtest.Slots("w", 4, matchtest.Cores(1))})
	refusal, ok := errors.AsType[*match.Refusal](err)
	if want := (&match.Refusal{Err: match.ErrBusy, Reason: reason}); !ok || !errors.Is(err, match.ErrBusy) || err.Error() != want.Error() {
		t.Errorf("match: got %v, want %v", refusal, want)
	}
	for method, call := range calls(c) {
		for _, want := range []error{match.ErrStale, match.ErrConflict, match.ErrUnavailable, errors.New("the graph is broken")} {
			in := fmt.Errorf("%s: %w", method, want)
			fake.FailNext(method, in)
			if err := call(soon(t)); err == nil || err.Error() != in.Error() {
				t.Errorf("%s: got %v, want %v", method, err, in)
			}
		}
	}
}

func TestWhatCannotBeSentIsInvalidAndReachesNoEngine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fake := matchtest.NewFake()
	serve(t, path, fake)
	c := dial(t, path, client.Options{})
	ctx := soon(t)
	good := matchtest.Held("a", "n", matchtest.Cores(1))
	_, matched := c.Match(ctx, match.Request{ID: 1})
	_, searched := c.Find(ctx, 1, "status=\xff", matchtest.Now)
	for what, err := range map[string]error{
		"a match of nothing":         matched,
		"a slot that holds no set":   c.Update(ctx, 1, match.Job{ID: 1, Slots: []match.Slot{good}}, match.Job{ID: 2, Slots: []match.Slot{{Key: "b", Node: "n"}}}),
		"a holder that is not UTF-8": c.Update(ctx, 1, match.Job{ID: 1, Slots: []match.Slot{matchtest.WithHolder(good, "\xff")}}),
		"a node that is nil":         c.PutNode(ctx, 1, matchtest.Node("n", nil), nil),
		"a status not known":         c.SetStatus(ctx, 1, "n", 7),
		"a name that is not UTF-8":   c.RemoveNode(ctx, 1, "\xff"),
		"a key that is not UTF-8":    c.Release(ctx, 1, 1, "\xff"),
		"a path that is not UTF-8":   c.RemoveSubgraph(ctx, 1, "/\xff"),
		"no graph":                   c.AddSubgraph(ctx, 1, nil),
		"a graph over the limit":     c.AddSubgraph(ctx, 1, make([]byte, fluxionpb.MaxGraph+1)),
		"criteria not UTF-8":         searched,
	} {
		if !errors.Is(err, match.ErrInvalid) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if calls := fake.Calls(); len(calls) > 0 {
		t.Errorf("the engine was called: %v", calls)
	}
}

func TestTargetsThatAreNotSafeAreRefused(t *testing.T) {
	cases := map[string]struct {
		target string
		tls    endpoint.Identity
	}{
		"another machine without mutual TLS": {target: "tcp://10.0.0.1:1"},
		"a name":                             {target: "tcp://localhost:1"},
		"a resolver of gRPC":                 {target: "dns:///127.0.0.1:1"},
		"a certificate without a key":        {target: "tcp://10.0.0.1:1", tls: endpoint.Identity{Cert: "c"}},
		"files that are not there":           {target: "tcp://10.0.0.1:1", tls: endpoint.Identity{Cert: "/c", Key: "/k", CA: "/a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, err := client.Dial(tc.target, client.Options{TLS: tc.tls})
			if err == nil {
				_ = c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.target) {
				t.Errorf("got %v, want an error that names %s", err, tc.target)
			}
		})
	}
}
