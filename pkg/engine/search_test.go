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

// TestWhatIsNotFoundWithinTheBudgetIsBusy asks for one slot more than there are
// nodes, where a node can hold just one: by amounts of each pool they would fit.
func TestWhatIsNotFoundWithinTheBudgetIsBusy(t *testing.T) {
	const n = 200
	d := &driver{e: newEngine(t)}
	var graphs []*resource.Graph
	for i := range int64(n) {
		// No two nodes are alike, so that the search cannot skip any.
		graphs = append(graphs, matchtest.Node(fmt.Sprintf("n%03d", i), nil, matchtest.MilliCores(40_000+i), matchtest.Memory(256)))
	}
	d.load(t, graphs...)
	js := matchtest.Jobspec(
		matchtest.Slot("x", jobspec.Exactly(n/2), matchtest.Cores(40), matchtest.Memory(10)),
		matchtest.Slot("y", jobspec.Exactly(n/2+1), matchtest.Cores(20), matchtest.Memory(250)),
	)
	want := match.Reason{
		Code: match.NotFound, Slot: "y", Level: "cluster", Wanted: n/2 + 1, Found: n / 2, Nodes: n, WaitingHelps: true,
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
