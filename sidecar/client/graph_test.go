package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/pkg/traverser"
	"github.com/flux-k8s/fluence/sidecar/client"
)

func TestConformanceWithGraphs(t *testing.T) {
	dir := t.TempDir()
	n := 0
	matchtest.TestGraph(t, func(t *testing.T) match.GraphEngine {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		e, err := engine.New(engine.Options{
			Epoch: func() match.Epoch { return match.Epoch(epochs.Add(1)) }, Graph: traverser.DefaultOptions(),
		})
		if err != nil {
			t.Fatal(err)
		}
		serve(t, path, e)
		return dial(t, path, client.Options{Timeout: 20 * time.Second})
	})
}

// A reading engine looks at the graphs that it gets.
type reading struct {
	match.GraphEngine
	read func(jgf []byte) error
}

func (r reading) AddSubgraph(_ context.Context, _ match.Epoch, jgf []byte) error { return r.read(jgf) }

func TestALargeGraphArrivesAsItWas(t *testing.T) {
	sent := make([]byte, 64<<20)
	for i := range sent {
		sent[i] = byte(i % 251)
	}
	path := filepath.Join(t.TempDir(), "s")
	calls := 0
	serve(t, path, reading{matchtest.NewFake(), func(jgf []byte) error {
		calls++
		if !bytes.Equal(jgf, sent) {
			t.Errorf("%d bytes became %d others", len(sent), len(jgf))
		}
		return nil
	}})
	c := dial(t, path, client.Options{})
	if err := c.Ping(soon(t)); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := c.AddSubgraph(soon(t), 1, sent); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if calls != 1 {
		t.Errorf("the engine was called %d times", calls)
	}
	// Both sides together: the text once, and what is in flight.
	if spent, most := after.TotalAlloc-before.TotalAlloc, uint64(len(sent)+len(sent)/2); spent > most && !raced {
		t.Errorf("a graph of %d bytes took %d bytes of memory, want at most %d", len(sent), spent, most)
	}
}

func TestAnEngineThatTakesNoGraphsSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fake := matchtest.NewFake()
	serve(t, path, struct{ match.Engine }{fake})
	c := dial(t, path, client.Options{})
	ctx := soon(t)
	_, found := c.Find(ctx, 1, "status=up", matchtest.Now)
	for what, err := range map[string]error{
		"add":    c.AddSubgraph(ctx, 1, make([]byte, 10<<20)),
		"remove": c.RemoveSubgraph(ctx, 1, "/cluster0"),
		"find":   found,
	} {
		if !errors.Is(err, match.ErrInvalid) || !strings.HasSuffix(err.Error(), "this engine does not support AddSubgraph, RemoveSubgraph and Find") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if err := c.Ready(ctx, 1); err != nil {
		t.Errorf("a call that every engine takes: %v", err)
	}
}

func TestASearchAndItsAnswerArriveAsTheyWere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fake := matchtest.NewFake()
	serve(t, path, fake)
	c := dial(t, path, client.Options{})
	want := &resource.Set{Vertices: []resource.Share{{Amount: 64, Vertex: resource.Vertex{
		UniqID: 4, Type: "memory", Basename: "memory", Name: "memory0", Rank: 3, Size: 64, Unit: "GB", Status: resource.Down,
		Path: "/cluster0/node0/memory0",
	}}}}
	fake.SetFound(want)
	got, err := c.Find(soon(t), 7, "status=down or (sched-now=free)", matchtest.Now)
	if err != nil || len(got.Vertices) != 1 || got.Vertices[0].Status != resource.Down || got.Vertices[0].Amount != 64 {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if err := c.RemoveSubgraph(soon(t), 7, "/cluster0/grün"); err != nil {
		t.Error(err)
	}
	calls := fake.Calls(matchtest.Find, matchtest.RemoveSubgraph)
	if len(calls) != 2 || calls[0].Epoch != 7 || calls[0].Criteria != "status=down or (sched-now=free)" || !calls[0].Now.Equal(matchtest.Now) {
		t.Fatalf("the engine was asked %+v", calls)
	}
	if calls[1].Epoch != 7 || calls[1].Name != "/cluster0/grün" {
		t.Errorf("the engine was asked %+v", calls[1])
	}
}
