package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// TestWhatIsNotFoundWithinTheBudgetIsBusy asks for slots of even sizes on nodes of odd
// size: one unit of every node is of no use, which neither the amounts show nor the ways
// to fill a node, of which there are too many to list.
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
		Code: match.NotFound, Slot: "of2", Level: "cluster", Wanted: wanted, Found: wanted - 3, Nodes: n, WaitingHelps: true,
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

// TestNodesThatAreAlikeAreNotTriedInEveryOrder asks the same of equal nodes: a
// search that tells them apart would not come to an end.
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

// TestTooLittleInAllIsKnownWithoutASearch asks for more cores than there are on
// nodes that a search would not come to the end of.
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

// TestManyShapesNeedNoSearchWhenTheLargestCanGoFirst has more shapes and nodes
// than a search has time to look at even once.
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
