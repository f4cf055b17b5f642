package fluxion_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
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

func TestAGraphThatCannotGrowIsLoadedAgain(t *testing.T) {
	for _, broken := range []string{"AddSubgraph", "RemoveSubgraph"} {
		t.Run(broken, func(t *testing.T) {
			r := newGrowingRig(t, match.PolicyLonode, four()...)
			r.places(t, 1, cores(2), "a a")
			r.process.Fail = func(call string) error {
				if call == broken {
					return errors.New("not today")
				}
				return nil
			}
			for i := range 3 {
				r.put(t, matchtest.Node("a", nil, matchtest.Cores(int64(5+i))))
				r.places(t, match.JobID(10+i), cores(3), "a a a")
				r.release(t, match.JobID(10+i))
			}
			r.loads(t, 4)
			if got := r.process.Calls[broken]; got != 1 {
				t.Errorf("%s was tried %d times, want once", broken, got)
			}
		})
	}
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
