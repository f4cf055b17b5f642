package traverser

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

// TestEveryPolicyIsGoneBy checks that every policy of package match is known here,
// with the properties that match has for it, and that no two policies are equal.
func TestEveryPolicyIsGoneBy(t *testing.T) {
	by := map[policy]string{}
	for _, name := range match.GraphPolicies() {
		p, err := parsePolicy(name)
		if err != nil {
			t.Errorf("policy %s: %v", name, err)
			continue
		}
		if other, twice := by[p]; twice {
			t.Errorf("policies %s and %s are gone by alike", other, name)
		}
		by[p] = name
		if facts, _ := match.PolicyOf(name); p.nodeExclusive != facts.Exclusive || p.nodeCentric != facts.NodeCentric {
			t.Errorf("policy %s: %+v, want what match says: %+v", name, p, facts)
		}
	}
}
