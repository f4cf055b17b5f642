package fluxion_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/sidecar/fluxion"
	"github.com/flux-k8s/fluence/sidecar/fluxion/reapitest"
)

// grown checks how often the graph has grown and shrunk.
func (r *rig) grown(t *testing.T, added, removed int) {
	t.Helper()
	if a, b := r.process.Calls["AddSubgraph"], r.process.Calls["RemoveSubgraph"]; a != added || b != removed {
		t.Errorf("the graph grew %d times and shrank %d times, want %d and %d", a, b, added, removed)
	}
}

func TestAGraphThatGrowsIsNotLoadedAgain(t *testing.T) {
	r := newGrowingRig(t, match.PolicyLonode, four()...)
	r.places(t, 1, cores(2), "a a")
	// Many changes are one growth: new nodes, a new level, a type that no filter of the graph names.
	fpga := matchtest.Pool{Type: "fpga", Amount: 2}
	r.put(t, matchtest.Node("c", [][2]string{{"rack", "r"}}, matchtest.Cores(1), fpga))
	r.put(t, matchtest.Node("d", [][2]string{{"rack", "r"}}, matchtest.Cores(1)))
	r.update(t, 9, matchtest.Held("x", "c", matchtest.Cores(1)))
	r.places(t, 2, cores(7), "a a b b b b d")
	r.grown(t, 1, 0)
	r.places(t, 3, matchtest.Slots("w", 2, matchtest.Pool{Type: fpga.Type, Amount: 1}), "c c")
	r.holds(t, tally{"n0": {"core": 4}, "n1": {"core": 4}, "n2": {"core": 1, "type00_": 2}, "n3": {"core": 1}})
	// A node that comes to a level that is there.
	r.put(t, matchtest.Node("e", [][2]string{{"rack", "r"}}, matchtest.Cores(1)))
	r.places(t, 4, cores(1), "e")
	r.grown(t, 2, 0)
	// A node that changes keeps its number and what is held there, and a node that is gone is removed.
	r.put(t, matchtest.Node("a", nil, matchtest.Cores(6), matchtest.Memory(8)))
	if err := r.RemoveNode(t.Context(), r.epoch, "b"); err != nil {
		t.Fatalf("RemoveNode() = %v", err)
	}
	r.places(t, 5, cores(2), "a a")
	r.grown(t, 3, 2)
	r.holds(t, tally{"n0": {"core": 6}, "n2": {"core": 1, "type00_": 2}, "n3": {"core": 1}, "n4": {"core": 1}})
	// Nodes that come back, move and go again.
	r.put(t, four()[1])
	r.places(t, 6, matchtest.Slots("w", 1, matchtest.Memory(8)), "a")
	r.put(t, matchtest.Node("d", [][2]string{{"rack", "s"}}, matchtest.Cores(2)))
	r.places(t, 7, cores(1), "d")
	r.release(t, 2)
	r.places(t, 8, cores(7), "a a d b b b b")
	r.loads(t, 1)
}

// Nodes that join are taken in the order in which they would be if they had been loaded.
func TestTheOrderOfNodesAfterAGrowth(t *testing.T) {
	rising, falling := []string{"a b c", "a b c d"}, []string{"c b a", "d c b a"}
	for policy, want := range map[string][]string{
		match.PolicyLow: rising, match.PolicyLonode: rising, match.PolicyFirst: rising, match.PolicyHigh: falling, match.PolicyHinode: falling,
	} {
		t.Run(policy, func(t *testing.T) {
			node := func(name string) *resource.Graph { return matchtest.Node(name, nil, matchtest.Cores(1)) }
			r := newGrowingRig(t, policy, node("a"), node("b"))
			for i, name := range []string{"c", "d"} {
				r.put(t, node(name))
				r.places(t, 1, cores(int64(3+i)), want[i])
				r.release(t, 1)
			}
			r.grown(t, 2, 0)
			r.loads(t, 1)
		})
	}
}

// The reason is logged once, and each graph that is loaded may grow again.
func TestAGraphThatCannotGrowIsLoadedAgain(t *testing.T) {
	for _, broken := range []string{"AddSubgraph", "RemoveSubgraph"} {
		t.Run(broken, func(t *testing.T) {
			var log bytes.Buffer // Only this test's calls write to it, one after the other.
			p := reapitest.NewProcess()
			e, err := fluxion.New(fluxion.Options{
				Epoch: func() match.Epoch { return 1 }, Open: func() fluxion.Library { return p.OpenGrower() },
				Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil {
				t.Fatalf("New() = %v", err)
			}
			t.Cleanup(e.Close)
			r := load(t, &rig{Engine: e, process: p}, four()...)
			r.places(t, 1, cores(2), "a a")
			fails := func(call string) error {
				if call == broken {
					return errors.New("not today")
				}
				return nil
			}
			change := func(cores int64) {
				r.put(t, matchtest.Node("a", nil, matchtest.Cores(cores)))
				r.places(t, 10, matchtest.Slots("w", 3, matchtest.Cores(1)), "a a a")
				r.release(t, 10)
			}
			logged := func() int { return strings.Count(log.String(), "cannot grow or shrink") }
			r.process.Fail = fails
			for i := range 3 {
				change(int64(5 + i))
			}
			r.loads(t, 4)
			if got := r.process.Calls[broken]; got != 3 {
				t.Errorf("%s was tried %d times, want once for each graph", broken, got)
			}
			if logged() != 1 || !strings.Contains(log.String(), "not today") {
				t.Errorf("logged is %s, want the reason once", log.String())
			}
			r.process.Fail = nil
			change(8)
			r.loads(t, 4)
			r.process.Fail = fails
			change(9)
			if logged() != 2 {
				t.Errorf("after a success the reason is logged %d times, want twice", logged())
			}
		})
	}
}

// However long the library takes to follow many changes, other calls are answered after a step, who
// fits without them is placed, and who does not gets the answer that the graph is being loaded.
func TestAGrowthThatTakesLongLetsOthersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const call = 60 * time.Millisecond // of the library
		r := newGrowingRig(t, match.PolicyLonode, append(four(), numbered("z", 16, matchtest.Cores(1))...)...)
		for i, n := range numbered("z", 8, matchtest.Cores(2)) {
			r.put(t, n)
			r.update(t, match.JobID(100+i), matchtest.Held("k", nameOf(n), matchtest.Cores(1)))
		}
		r.process.Fail = func(string) error {
			time.Sleep(call)
			return nil
		}
		short, cancel := context.WithTimeout(t.Context(), 10*call)
		defer cancel()
		began := time.Now()
		if _, err := r.Match(short, r.ask(1, cores(20))); !errors.Is(err, match.ErrLoading) {
			t.Errorf("Match() = %v, want the error %q", err, match.ErrLoading)
		}
		if took := time.Since(began); took > 10*call {
			t.Errorf("the answer came after %v, in a call with %v", took, 10*call)
		}
		r.places(t, 2, cores(8), "a a a a b b b b")
		done := make(chan struct{})
		go func() {
			defer close(done)
			// A core of each of the eight old nodes that are left, and of each of the eight that changed.
			a, err := r.Match(t.Context(), r.ask(3, cores(16)))
			if err != nil || len(a.Slots) != 16 {
				t.Errorf("Match() = %v, %v, want 16 slots", a, err)
			}
		}()
		time.Sleep(call / 2) // The match has begun.
		began = time.Now()
		r.update(t, 50, matchtest.Held("k", "a", matchtest.MilliCores(1)))
		if took := time.Since(began); took > 450*time.Millisecond {
			t.Errorf("another call waited for %v", took)
		}
		<-done
		r.loads(t, 1)
	})
}

// nameOf returns the name of a node.
func nameOf(g *resource.Graph) string {
	for i := range g.Vertices {
		if g.Vertices[i].Type == resource.TypeNode {
			return g.Vertices[i].Name
		}
	}
	return ""
}

// numbered is n nodes with these pools.
func numbered(prefix string, n int, pools ...matchtest.Pool) []*resource.Graph {
	nodes := make([]*resource.Graph, n)
	for i := range nodes {
		nodes[i] = matchtest.Node(fmt.Sprintf("%s%02d", prefix, i), nil, pools...)
	}
	return nodes
}

func TestManyNewNodesAreLoaded(t *testing.T) {
	r := newGrowingRig(t, match.PolicyLonode, four()...)
	for i := range 17 {
		r.put(t, matchtest.Node(fmt.Sprintf("x%02d", i), nil, matchtest.Cores(1)))
	}
	r.places(t, 1, cores(9), "a a a a b b b b x00")
	r.grown(t, 0, 0)
	r.loads(t, 2)
}

func TestAGrowthKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := reapitest.NewProcess()
		p.LoadTime = func(int) time.Duration { return loadTime }
		r := load(t, &rig{Engine: newGrowingEngine(t, match.PolicyLonode, p), process: p}, four()...)
		t.Cleanup(r.Close)
		r.put(t, matchtest.Node("c", nil, matchtest.Cores(8)))
		if took, _ := r.verdict(t, 1, matchtest.Slots("w", 1, matchtest.Cores(8))); took != 0 {
			t.Errorf("a group that needs the new node waited for %v", took)
		}
		r.loads(t, 1)
	})
}
