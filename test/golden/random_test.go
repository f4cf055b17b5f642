package golden_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/test/golden"
	"github.com/flux-k8s/fluence/test/golden/model"
	"github.com/flux-k8s/fluence/test/trials"
)

// Random cases must have answers of all kinds.
func TestRandomGetsAnswersOfAllKinds(t *testing.T) {
	count := map[string]int{}
	for seed := range trials.Seeds(300) {
		c := golden.Random(seed)
		if err := golden.Record(&c, model.Open); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !c.Expect.Init.OK {
			t.Fatalf("seed %d: the graph is refused: %s", seed, c.Expect.Init.ErrMsg)
		}
		for i, a := range c.Expect.Steps {
			count[c.Steps[i].Op+" "+c.Steps[i].MatchOp+" "+a.Status+a.Mode]++
		}
		if err := golden.Play(&c, model.Open); err != nil {
			t.Errorf("seed %d: the model does not answer as it did: %v", seed, err)
		}
		again := golden.Random(seed)
		if golden.Record(&again, model.Open) != nil || text(t, c) != text(t, again) {
			t.Errorf("seed %d: another case the second time", seed)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%5d %s", count[kind], kind)
	}
	if trials.Count(300) < 300 {
		return // too few cases to have all kinds
	}
	for _, op := range []string{golden.Allocate, golden.AllocateWithSatisfy, golden.AllocateOrElseReserve, golden.WithoutAllocating, golden.WithoutAllocatingFuture} {
		if n := count["match "+op+" allocated"]; n < 50 {
			t.Errorf("%d times allocated by %s: too rarely", n, op)
		}
	}
	for _, kind := range []string{
		"match allocate busy", "match allocate invalid", "match allocate_orelse_reserve reserved", "match without_allocating_future reserved",
		"match allocate_with_satisfiability unsatisfiable", "satisfy  satisfiable", "info  ALLOCATED", "info  CANCELED",
	} {
		if count[kind] < 5 {
			t.Errorf("%d times %s: too rarely", count[kind], kind)
		}
	}
}

func text(t *testing.T, c golden.Case) string {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
