package model

import (
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

func TestEveryPolicyIsInTheModel(t *testing.T) {
	for _, name := range match.GraphPolicies() {
		if _, there := policies[name]; !there {
			t.Errorf("the model lacks the policy %s", name)
		}
	}
}
