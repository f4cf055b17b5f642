package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

func TestCountsFollowTheCalls(t *testing.T) {
	fake := matchtest.NewFake()
	c := count(fake)
	ctx := t.Context()
	slots := []match.Slot{matchtest.Held("a", "n", matchtest.Cores(1)), matchtest.Held("b", "n", matchtest.Cores(1))}
	found := func(r match.Request) (*match.Allocation, error) {
		return &match.Allocation{ID: r.ID, Slots: slots}, nil
	}
	fake.OnMatch(found)
	// A rack of two nodes, and another of one.
	graph := func(nodes ...string) []byte {
		g := &resource.Graph{}
		root := g.Hang(-1, resource.Vertex{Type: resource.TypeCluster, Name: "c", Size: 1})
		for _, path := range nodes {
			rack, name, _ := strings.Cut(path, "/")
			g.Hang(g.Hang(root, resource.Vertex{Type: "rack", Name: rack, Size: 1}), resource.Vertex{Type: resource.TypeNode, Name: name, Size: 1})
		}
		text, err := g.JGF()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	matched := func(op match.Op, id match.JobID) error {
		_, err := c.Match(ctx, match.Request{Op: op, ID: id})
		return err
	}
	steps := []struct {
		name        string
		call        func() error
		jobs, nodes int
		slots       int
	}{
		{"two nodes", func() error { return c.PutNode(ctx, 1, matchtest.Node("n", nil), matchtest.Node("m", nil)) }, 0, 2, 0},
		{"a node again", func() error { return c.PutNode(ctx, 1, matchtest.Node("n", nil)) }, 0, 2, 0},
		{"a node goes", func() error { return c.RemoveNode(ctx, 1, "m") }, 0, 1, 0},
		{"a node that is not there goes", func() error { return c.RemoveNode(ctx, 1, "x") }, 0, 1, 0},
		{"a job", func() error { return matched(match.Allocate, 1) }, 1, 1, 2},
		{"the job again", func() error { return matched(match.Allocate, 1) }, 1, 1, 2},
		{"a question", func() error { return matched(match.WithoutAllocating, 2) }, 1, 1, 2},
		{"another question", func() error { return matched(match.Satisfiability, 2) }, 1, 1, 2},
		{"a job of the cluster", func() error { return c.Update(ctx, 1, match.Job{ID: 3, Slots: slots[:1]}) }, 2, 1, 3},
		{"a job of nothing", func() error { return c.Update(ctx, 1, match.Job{ID: 4}) }, 2, 1, 3},
		{"one of two slots is released", func() error { return c.Release(ctx, 1, 1, "a") }, 2, 1, 2},
		{"so is the other", func() error { return c.Release(ctx, 1, 1, "b") }, 1, 1, 1},
		{"a job is released whole", func() error { return c.Release(ctx, 1, 3) }, 0, 1, 0},
		{"a job that holds nothing is released", func() error { return c.Release(ctx, 1, 3, "a") }, 0, 1, 0},
		{"a reservation", func() error {
			fake.Answer(&match.Allocation{ID: 8, Reserved: true, Slots: slots}, nil)
			return matched(match.AllocateOrElseReserve, 8)
		}, 0, 1, 0},
		{"a reservation of the cluster", func() error {
			return c.Update(ctx, 1, match.Job{ID: 9, Reserved: true, Slots: slots})
		}, 0, 1, 0},
		{"a question of later", func() error { return matched(match.WithoutAllocatingFuture, 2) }, 0, 1, 0},
		{"a job that would have waited", func() error { return matched(match.AllocateOrElseReserve, 8) }, 1, 1, 2},
		{"a new epoch", func() error {
			e, err := c.Reset(ctx)
			if err == nil && e != 1 {
				err = fmt.Errorf("the epoch is %d, and the engine's is 1", e)
			}
			return err
		}, 0, 0, 0},
		{"a graph", func() error { return c.AddSubgraph(ctx, 1, graph("r1/n1", "r10/n2")) }, 0, 2, 0},
		{"a graph with a node that is there", func() error { return c.AddSubgraph(ctx, 1, graph("r1/n1", "r2/n3")) }, 0, 3, 0},
		{"a search", func() error {
			fake.SetFound(&resource.Set{})
			s, err := c.Find(ctx, 1, "status=up", time.Time{})
			if err == nil && s == nil {
				err = errors.New("nothing was found, not even an empty set")
			}
			return err
		}, 0, 3, 0},
		{"a rack goes", func() error { return c.RemoveSubgraph(ctx, 1, "/c/r1") }, 0, 2, 0},
		{"a node goes by its path", func() error { return c.RemoveSubgraph(ctx, 1, "/c/r10/n2") }, 0, 1, 0},
	}
	for _, s := range steps {
		if err := s.call(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if jobs, nodes := c.sizes(); jobs != s.jobs || nodes != s.nodes {
			t.Errorf("%s: %d jobs and %d nodes, want %d and %d", s.name, jobs, nodes, s.jobs, s.nodes)
		}
		if got := c.slots(); got != s.slots {
			t.Errorf("%s: %d slots, want %d", s.name, got, s.slots)
		}
	}
}

func TestACallThatFailsCountsForNothing(t *testing.T) {
	fake := matchtest.NewFake()
	c := count(fake)
	ctx := context.WithoutCancel(t.Context())
	if err := c.PutNode(ctx, 1, matchtest.Node("n", nil)); err != nil {
		t.Fatal(err)
	}
	job := match.Job{ID: 1, Slots: []match.Slot{matchtest.Held("a", "n", matchtest.Cores(1))}}
	if err := c.Update(ctx, 1, job); err != nil {
		t.Fatal(err)
	}
	for _, m := range []matchtest.Method{
		matchtest.Match, matchtest.Release, matchtest.Update, matchtest.PutNode, matchtest.RemoveNode, matchtest.Reset,
		matchtest.AddSubgraph, matchtest.RemoveSubgraph, matchtest.Find,
	} {
		fake.Fail(m, match.ErrStale)
	}
	_, matched := c.Match(ctx, match.Request{ID: 2})
	_, reset := c.Reset(ctx)
	_, found := c.Find(ctx, 1, "status=up", time.Time{})
	for what, err := range map[string]error{
		"match":   matched,
		"release": c.Release(ctx, 1, 1),
		"update":  c.Update(ctx, 1, match.Job{ID: 2, Slots: job.Slots}),
		"put":     c.PutNode(ctx, 1, matchtest.Node("m", nil)),
		"remove":  c.RemoveNode(ctx, 1, "n"),
		"reset":   reset,
		"add":     c.AddSubgraph(ctx, 1, []byte("{}")),
		"take":    c.RemoveSubgraph(ctx, 1, "/c"),
		"find":    found,
	} {
		if !errors.Is(err, match.ErrStale) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if jobs, nodes := c.sizes(); jobs != 1 || nodes != 1 {
		t.Errorf("%d jobs and %d nodes, want 1 and 1", jobs, nodes)
	}
}

func TestReadyFollowsTheCalls(t *testing.T) {
	fake := matchtest.NewFake()
	c := count(fake)
	epoch, err := c.Reset(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c.isReady() {
		t.Error("an empty graph is ready")
	}
	fake.FailNext(matchtest.Ready, match.ErrStale)
	if err := c.Ready(t.Context(), epoch); err == nil || c.isReady() {
		t.Errorf("Ready that failed: %v, and it is ready: %t", err, c.isReady())
	}
	if err := c.Ready(t.Context(), epoch); err != nil || !c.isReady() {
		t.Errorf("Ready: %v, and it is ready: %t", err, c.isReady())
	}
	if _, err := c.Reset(t.Context()); err != nil || c.isReady() {
		t.Errorf("Reset: %v, and it is ready: %t", err, c.isReady())
	}
}

// A match takes as long as it takes: others are answered and counted meanwhile, but for a
// release of the same job, which comes after it as it would in the engine.
func TestALongMatchHoldsUpNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := matchtest.NewFake()
		c := count(fake)
		fake.OnMatch(func(r match.Request) (*match.Allocation, error) {
			return &match.Allocation{ID: r.ID, Slots: []match.Slot{matchtest.Held("a", "n", matchtest.Cores(1))}}, nil
		})
		end := fake.Hold(matchtest.Match)
		var calls sync.WaitGroup
		calls.Go(func() {
			if _, err := c.Match(t.Context(), match.Request{ID: 1}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if err := c.PutNode(t.Context(), 1, matchtest.Node("n", nil)); err != nil {
			t.Fatal(err)
		}
		if jobs, nodes := c.sizes(); jobs != 0 || nodes != 1 {
			t.Errorf("%d jobs and %d nodes while the match goes on, want 0 and 1", jobs, nodes)
		}
		if err := c.Release(t.Context(), 1, 2); err != nil {
			t.Errorf("a release of another job: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Release(ctx, 1, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a release of the job that is being matched: %v", err)
		}
		calls.Go(func() {
			if err := c.Release(t.Context(), 1, 1); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		end()
		calls.Wait()
		if jobs, _ := c.sizes(); jobs != 0 {
			t.Errorf("%d jobs after the release, want none", jobs)
		}
	})
}

func TestAMatchThatEndsAfterAResetCountsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := matchtest.NewFake()
		c := count(fake)
		fake.OnMatch(func(r match.Request) (*match.Allocation, error) {
			return &match.Allocation{ID: r.ID, Slots: []match.Slot{matchtest.Held("a", "n", matchtest.Cores(1))}}, nil
		})
		end := fake.Hold(matchtest.Match)
		var calls sync.WaitGroup
		calls.Go(func() {
			if _, err := c.Match(t.Context(), match.Request{ID: 1}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if _, err := c.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		end()
		calls.Wait()
		if jobs, _ := c.sizes(); jobs != 0 {
			t.Errorf("%d jobs in an empty graph", jobs)
		}
	})
}

// A job whose match has panicked may be matched again, and released.
func TestAMatchThatPanicsCountsForNothing(t *testing.T) {
	fake := matchtest.NewFake()
	c := count(fake)
	fake.OnMatch(func(match.Request) (*match.Allocation, error) { panic("broken") })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the match did not panic")
			}
		}()
		_, _ = c.Match(t.Context(), match.Request{Op: match.Allocate, ID: 1})
	}()
	if jobs, _ := c.sizes(); jobs != 0 {
		t.Errorf("%d jobs hold something, want none", jobs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	fake.OnMatch(func(r match.Request) (*match.Allocation, error) {
		return &match.Allocation{ID: r.ID, Slots: []match.Slot{matchtest.Held("a", "n", matchtest.Cores(1))}}, nil
	})
	if _, err := c.Match(ctx, match.Request{Op: match.Allocate, ID: 1}); err != nil {
		t.Errorf("matched again: %v", err)
	}
	if jobs, _ := c.sizes(); jobs != 1 {
		t.Errorf("%d jobs hold something, want the one", jobs)
	}
}
