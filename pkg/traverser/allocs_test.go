package traverser

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

// TestMatchAllocatesNothingPerVertex checks that a visit to a vertex allocates no
// memory: finding one node takes the same allocations among twenty times as many nodes.
func TestMatchAllocatesNothingPerVertex(t *testing.T) {
	measure := func(nodesInAll int, q match.Request) float64 {
		r := load(t, match.PolicyLow, grown(of("cluster", 1, of("node", nodesInAll, of("core", 8), of("gpu", 2)))))
		return testing.AllocsPerRun(50, func() {
			if _, err := r.try(q); err != nil {
				t.Fatal(err)
			}
			r.Release(q.ID)
		})
	}
	for name, q := range map[string]match.Request{
		"a whole node":     wants(1, 0, nodes(1)),
		"a core":           wants(1, 0, cores(1, 1)),
		"part of a node":   wants(1, 0, several("node", 1, several("slot", 1, several("core", 2), several("gpu", 1)))),
		"a question alone": wants(1, 0, nodes(1), doing(match.WithoutAllocating)),
	} {
		few, many := measure(100, q), measure(2000, q)
		t.Logf("%s: %.0f allocations with 100 nodes, %.0f with 2,000", name, few, many)
		if many > few+5 {
			t.Errorf("%s: %.0f allocations with 100 nodes, %.0f with 2,000", name, few, many)
		}
	}
}
