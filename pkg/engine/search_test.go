package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
	"github.com/flux-k8s/fluence/test/trials"
)

// TestWhatIsNotFoundWithinTheBudgetIsBusy requests slots of even sizes on nodes of odd size. One
// unit of every node is useless. The amounts do not show that, and the patterns of a node are too
// many to list.
func TestWhatIsNotFoundWithinTheBudgetIsBusy(t *testing.T) {
	const (
		n     = 10
		small = 80
	)
	d := &driver{e: newEngine(t)}
	var graphs []*resource.Graph
	for i := range n {
		graphs = append(graphs, matchtest.Node(fmt.Sprintf("n%d", i), nil, matchtest.MilliCores(1001)))
	}
	d.load(t, graphs...)
	js := matchtest.Jobspec()
	left := int64(n*1001 - 4 - 2*small)
	for _, size := range []int64{34, 26, 22, 18, 16, 14, 12} {
		count := left / size
		if size > 12 {
			count = left / size / 4
		}
		left -= count * size
		js.Resources = append(js.Resources, matchtest.Slot(fmt.Sprintf("of%d", size), jobspec.Exactly(count), matchtest.MilliCores(size)))
	}
	wanted := small + left/2
	js.Resources = append(js.Resources, matchtest.Slot("of2", jobspec.Exactly(wanted), matchtest.MilliCores(2)))
	want := match.Reason{
		Code: match.NotFound, Slot: "of2", Level: "cluster", Wanted: wanted, Found: wanted - 3, Nodes: n, WaitingHelps: true, MayNeverFit: true,
	}
	for _, op := range []match.Op{match.Allocate, match.WithoutAllocating, match.Satisfiability} {
		r := d.request(1, js)
		r.Op = op
		_, err := d.e.Match(t.Context(), r)
		var refusal *match.Refusal
		if !errors.Is(err, match.ErrBusy) || !errors.As(err, &refusal) {
			t.Fatalf("Match() with operation %d = %v, want the error %q", op, err, match.ErrBusy)
		}
		if diff := cmp.Diff(want, refusal.Reason); diff != "" {
			t.Errorf("operation %d: the reason differs (-want +got):\n%s", op, diff)
		}
	}
}

// TestNodesThatAreAlikeAreNotTriedInEveryOrder requests the same on equal nodes. A search that
// treats them as different would not end.
func TestNodesThatAreAlikeAreNotTriedInEveryOrder(t *testing.T) {
	d := &driver{e: newEngine(t)}
	var graphs []*resource.Graph
	for i := range 20 {
		graphs = append(graphs, matchtest.Node(fmt.Sprintf("n%02d", i), nil, matchtest.Cores(40), matchtest.Memory(256)))
	}
	d.load(t, graphs...)
	_, err := d.e.Match(t.Context(), d.request(1, matchtest.Jobspec(
		matchtest.Slot("x", jobspec.Exactly(10), matchtest.Cores(40), matchtest.Memory(10)),
		matchtest.Slot("y", jobspec.Exactly(11), matchtest.Cores(20), matchtest.Memory(250)),
	)))
	if !errors.Is(err, match.ErrUnsatisfiable) {
		t.Errorf("Match() = %v, want the error %q", err, match.ErrUnsatisfiable)
	}
}

// TestTooLittleInAllIsKnownWithoutASearch requests more cores than there are, on too many nodes for
// a search.
func TestTooLittleInAllIsKnownWithoutASearch(t *testing.T) {
	const n = 200
	d := &driver{e: newEngine(t)}
	var graphs []*resource.Graph
	for i := range int64(n) {
		graphs = append(graphs, matchtest.Node(fmt.Sprintf("n%03d", i), nil, matchtest.MilliCores(40_000+i)))
	}
	d.load(t, graphs...)
	_, err := d.e.Match(t.Context(), d.request(1, matchtest.Jobspec(
		matchtest.Slot("x", jobspec.Exactly(n/2), matchtest.Cores(40)),
		matchtest.Slot("y", jobspec.Exactly(3*n/4), matchtest.Cores(30)),
	)))
	var refusal *match.Refusal
	if !errors.Is(err, match.ErrUnsatisfiable) || !errors.As(err, &refusal) || refusal.Reason.Code != match.TooFew {
		t.Errorf("Match() = %v, want %s of %q", err, match.TooFew, match.ErrUnsatisfiable)
	}
}

// TestManyShapesNeedNoSearchWhenTheLargestCanGoFirst has more shapes and nodes than a search can
// read even once.
func TestManyShapesNeedNoSearchWhenTheLargestCanGoFirst(t *testing.T) {
	d := &driver{e: newEngine(t)}
	graphs := []*resource.Graph{matchtest.Node("n0", nil, matchtest.Cores(40))}
	for i := range 2000 {
		graphs = append(graphs, matchtest.Node(fmt.Sprintf("n%d", i+1), nil, matchtest.Cores(39)))
	}
	d.load(t, graphs...)
	js := matchtest.Jobspec()
	for i := range 40 {
		js.Resources = append(js.Resources, matchtest.Slot(fmt.Sprintf("small%d", i), jobspec.Exactly(1), matchtest.Cores(1)))
	}
	js.Resources = append(js.Resources, matchtest.Slot("large", jobspec.Exactly(1), matchtest.Cores(40)))
	a := d.match(t, 1, js)
	if large := a.Slots[40]; large.Label != "large" || large.Node != "n0" {
		t.Errorf("slot %s of %q stands on %s, want large on n0", large.Key, large.Label, large.Node)
	}
}

// TestSearchesAreTheSameForTheSameRequest makes the same search on two engines.
func TestSearchesAreTheSameForTheSameRequest(t *testing.T) {
	seed := trials.Seed(t)
	for i := range uint64(trials.Count(200)) {
		r := rand.New(rand.NewPCG(seed+i, 2))
		p := randomInstanceSpec(r, i%2 == 0).generate(r)
		var placed [2]string
		for k := range placed {
			a, _, err := p.pose(t)
			if err != nil {
				placed[k] = err.Error()
			} else {
				placed[k] = written(a.Slots)
			}
		}
		if placed[0] != placed[1] {
			t.Errorf("-seed=%d: placed %s, and again %s", seed+i, placed[0], placed[1])
		}
	}
}

// TestLargeRequestsAreSearchedFor has more shapes, or more nodes, than the patterns that can be
// listed. A placement is found all the same if the nodes are not too full.
func TestLargeRequestsAreSearchedFor(t *testing.T) {
	for name, s := range map[string]instanceSpec{
		"many shapes":           {nodes: 64, shapes: 24},
		"many nodes":            {nodes: 1000, shapes: 3},
		"many nodes, unlike":    {nodes: 1000, shapes: 4, foreign: true},
		"many shapes and nodes": {nodes: 400, shapes: 12, foreign: true},
	} {
		t.Run(name, func(t *testing.T) {
			seed := trials.Seed(t)
			found, asked := 0, trials.Count(20)
			for i := range uint64(asked) {
				r := rand.New(rand.NewPCG(seed+i, 4))
				p := s.generateTo(r, plantLeast+0.02)
				a, _, err := p.pose(t)
				switch {
				case err == nil:
					found++
					if bad := p.check(a); bad != nil {
						t.Errorf("-seed=%d: %v", seed+i, bad)
					}
				case !errors.Is(err, match.ErrBusy):
					t.Errorf("-seed=%d: Match() = %v, want at the worst the error %q", seed+i, err, match.ErrBusy)
				}
			}
			t.Logf("found %d of %d", found, asked)
			if found < asked/2 {
				t.Errorf("found %d of %d, want half of them", found, asked)
			}
		})
	}
}

// TestWhatASearchFoundIsExtended requests a range whose minimum only a search finds.
func TestWhatASearchFoundIsExtended(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t,
		matchtest.Node("n1", nil, matchtest.Cores(10)), matchtest.Node("n2", nil, matchtest.Cores(9)),
		matchtest.Node("n3", nil, matchtest.Cores(9)), matchtest.Node("n4", nil, matchtest.Cores(2)),
	)
	// The minimums fit only as 4+3+3, 3+3+3 and 5+4. Two more slots fit on the last node.
	a := d.match(t, 1, matchtest.Jobspec(
		matchtest.Slot("five", jobspec.Exactly(1), matchtest.Cores(5)),
		matchtest.Slot("four", jobspec.Exactly(2), matchtest.Cores(4)),
		matchtest.Slot("three", jobspec.Exactly(5), matchtest.Cores(3)),
		matchtest.Slot("one", jobspec.Between(1, 9), matchtest.Cores(1)),
	))
	counts := make(map[string]int)
	for _, s := range a.Slots {
		counts[s.Label]++
	}
	if want := (map[string]int{"five": 1, "four": 2, "three": 5, "one": 2}); !maps.Equal(counts, want) {
		t.Errorf("placed %v, want %v", counts, want)
	}
}

// TestNodesThatAreAlikeButForALimitAreUnlike has two nodes that differ only in a limit.
func TestNodesThatAreAlikeButForALimitAreUnlike(t *testing.T) {
	d := &driver{e: newEngine(t)}
	d.load(t,
		matchtest.Node("n1", nil, matchtest.Cores(10)), matchtest.Node("n2", nil, matchtest.Cores(9)),
		matchtest.Node("n3", nil, matchtest.Cores(9)),
	)
	js := matchtest.Jobspec(
		matchtest.Slot("five", jobspec.Exactly(1), matchtest.Cores(5)),
		matchtest.Slot("four", jobspec.Exactly(2), matchtest.Cores(4)),
		matchtest.Slot("three", jobspec.Exactly(5), matchtest.Cores(3)),
	)
	// Of 4+3+3, 5+4 and 3+3+3, only 5+4 may be on n2.
	for _, label := range []string{"five", "four", "three"} {
		matchtest.Constrain(js, label, jobspec.SlotAttributes{
			Limits: []jobspec.Limit{{Name: "two", Hosts: []string{"n2"}, Most: 2}},
		})
	}
	var there []string
	for _, s := range d.match(t, 1, js).Slots {
		if s.Node == "n2" {
			there = append(there, s.Label)
		}
	}
	if want := []string{"five", "four"}; !slices.Equal(there, want) {
		t.Errorf("on n2 stand %v, want %v", there, want)
	}
}
