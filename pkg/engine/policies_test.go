package engine_test

import (
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// TestEveryPolicyOrdersNodes checks that the engine follows package match's table of policies.
func TestEveryPolicyOrdersNodes(t *testing.T) {
	orders := map[match.NodeOrder]string{
		match.LowestFirst: "0@n1 1@n2 2@n3", match.HighestFirst: "0@n3 1@n2 2@n1", match.DepthFirst: "0@n2 1@n1 2@n3",
	}
	for _, name := range match.Policies() {
		policy, _ := match.PolicyOf(name)
		want, known := orders[policy.Order]
		if !known {
			t.Errorf("policy %s: what an engine makes of its order %d is not tested", name, policy.Order)
			continue
		}
		t.Run(name, func(t *testing.T) {
			d := &driver{e: newEngine(t)}
			var err error
			if d.epoch, err = d.e.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			// Racks that are there before Ready are visited by name.
			for name, rack := range map[string]string{"n1": "b", "n2": "a", "n3": "b"} {
				d.put(t, matchtest.Node(name, [][2]string{{"rack", rack}}, matchtest.Cores(2)))
			}
			if err := d.e.Ready(t.Context(), d.epoch); err != nil {
				t.Fatal(err)
			}
			r := d.request(1, matchtest.Slots("a", 3, matchtest.Cores(2)))
			r.Policy, r.Holder = name, "h"
			a, err := d.e.Match(t.Context(), r)
			if err != nil {
				t.Fatalf("Match() = %v", err)
			}
			if got := written(a.Slots); got != want {
				t.Errorf("under the policy %s slots stand at %s, want %s", name, got, want)
			}
			whole := !slices.ContainsFunc(a.Slots, func(s match.Slot) bool { return s.Holder != "h" })
			if whole != policy.Exclusive {
				t.Errorf("under the policy %s nodes are given out whole: %v, want %v", name, whole, policy.Exclusive)
			}
		})
	}
}
