package invariants

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/match"
)

// The checker has its own list of the policies that take whole nodes, and
// its own longest pause between two attempts. Both must be the scheduler's.
func TestTheLongestPauseIsTheSchedulers(t *testing.T) {
	if longestPause != gang.MaxBackoff {
		t.Errorf("the longest pause is %s, and a group asks again after %s", longestPause, gang.MaxBackoff)
	}
}

func TestEveryPolicyOfWholeNodesIsListed(t *testing.T) {
	for _, policy := range match.Policies() {
		if got, want := (said{policy: policy}).whole(), match.IsExclusive(policy); got != want {
			t.Errorf("a group of the policy %s has its nodes for itself: %v, want %v", policy, got, want)
		}
	}
}
