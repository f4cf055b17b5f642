package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flux-k8s/fluence/pkg/engine/demand"
	"github.com/flux-k8s/fluence/pkg/engine/solver"
	"github.com/flux-k8s/fluence/pkg/engine/store"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/test/trials"
)

// TestRulesForHostsAreTheSameByPosition asks for every node, again and again, whether a shape may use
// it. In between the names of all rules are looked up, and no answer may change then.
func TestRulesForHostsAreTheSameByPosition(t *testing.T) {
	const nodes = 150
	st := store.New()
	for i := range nodes {
		if err := st.PutNodes(matchtest.Node(fmt.Sprintf("n%03d", i), nil, matchtest.Cores(1))); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range trials.Seeds(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		hosts := func() *jobspec.Constraint {
			var names []string
			for range 1 + r.IntN(nodes) {
				names = append(names, fmt.Sprintf("n%03d", r.IntN(nodes+20)))
			}
			if c := matchtest.Hosts(names...); r.IntN(2) == 0 {
				return c
			}
			return matchtest.Not(matchtest.Hosts(names...))
		}
		d, err := demand.Read(matchtest.Constrain(matchtest.Slots("a", 1, matchtest.Cores(1)), "a",
			jobspec.SlotAttributes{Constraints: hosts(), ConstraintsNow: hosts()}))
		if err != nil {
			t.Fatal(err)
		}
		var w solver.Workspace
		w.Begin(t.Context(), 1<<20)
		var b problemBuilder
		b.build(&w, d, st.Graph(), nil, nil, solver.Requester{})
		for range 6 {
			for at := range int32(nodes) {
				always, now := b.Allow(0, at)
				if permanent, current := d.Allow(0, st.Graph().NodeVertex(at)); always != permanent || now != current {
					t.Fatalf("seed %d: Allow(%d) = %t, %t, want %t, %t", seed, at, always, now, permanent, current)
				}
			}
		}
		if b.hosts[0].always == nil {
			t.Fatalf("seed %d: the names were not looked up", seed)
		}
	}
}
