package matchtest

import (
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

func TestEveryPolicyHasARuleOfItsOrder(t *testing.T) {
	for _, policy := range match.Policies() {
		ruled := false
		for name := range policyRules {
			ruled = ruled || strings.HasPrefix(name, policy+" fills ")
		}
		if !ruled {
			t.Errorf("no rule says in which order nodes are filled under the policy %s", policy)
		}
	}
}
