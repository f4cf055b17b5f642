package server_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/sidecar/client"
	"github.com/flux-k8s/fluence/sidecar/server"
)

// fragile is an engine that panics in each match of the job 13, and in a call of Jobs.
type fragile struct{ match.Engine }

func (f fragile) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	if r.ID == 13 {
		breakDown()
	}
	return f.Engine.Match(ctx, r)
}

func (f fragile) Release(ctx context.Context, e match.Epoch, id match.JobID, keys ...string) error {
	if id == 13 {
		breakDown()
	}
	return f.Engine.Release(ctx, e, id, keys...)
}

func breakDown() { panic("the engine is broken") }

// served serves a fragile engine, and returns a client with a loaded graph.
func served(t *testing.T, o server.Options) (*client.Client, match.Epoch) {
	t.Helper()
	e, err := engine.New(engine.Options{Epoch: func() match.Epoch { return 5 }})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(fragile{e}, o)
	go func() { _ = s.Serve(l) }()
	c, err := client.Dial("unix://"+path, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close()
		_ = s.Stop(over)
	})
	epoch, err := c.Reset(soon(t))
	if err == nil {
		err = errors.Join(c.PutNode(soon(t), epoch, matchtest.Node("n", nil, matchtest.Cores(4))), c.Ready(soon(t), epoch))
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, epoch
}

func one(epoch match.Epoch, id match.JobID) match.Request {
	return match.Request{Epoch: epoch, Op: match.Allocate, ID: id, Now: matchtest.Now, Keys: []string{"k"}, Jobspec: matchtest.Slots("a", 1, matchtest.Cores(1))}
}

func TestAPanicIsTheAnswerToItsCallAlone(t *testing.T) {
	var log bytes.Buffer
	var panics atomic.Int32
	c, epoch := served(t, server.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Panicked: func() { panics.Add(1) }})
	_, matched := c.Match(soon(t), one(epoch, 13))
	for method, err := range map[string]error{"match": matched, "release": c.Release(soon(t), epoch, 13)} {
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "broken") {
			t.Errorf("%s: got %v, want that it is a bug, and no more", method, err)
		}
	}
	if n := panics.Load(); n != 2 {
		t.Errorf("%d panics are counted, want 2", n)
	}
	for _, want := range []string{"Fluxion/Match", "Fluxion/Release", "the engine is broken", "breakDown"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, &log)
		}
	}
	if _, err := c.Match(soon(t), one(epoch, 1)); err != nil {
		t.Errorf("another call: %v", err)
	}
}

// Without Options.Panicked a panic may leave the engine half changed.
func TestAPanicEndsAProcessThatDoesNotStandIt(t *testing.T) {
	const child = "FLUENCE_TEST_PANIC"
	if os.Getenv(child) != "" {
		c, epoch := served(t, server.Options{Log: slog.New(slog.DiscardHandler)})
		_, _ = c.Match(soon(t), one(epoch, 13))
		return
	}
	again := exec.CommandContext(soon(t), os.Args[0], "-test.run", "^"+t.Name()+"$")
	again.Env = append(os.Environ(), child+"=1")
	out, err := again.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); !ended || !strings.Contains(string(out), "panic: the engine is broken") {
		t.Errorf("the process ended with %v:\n%s", err, out)
	}
}
