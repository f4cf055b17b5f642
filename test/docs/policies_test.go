package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Each place where a policy is chosen names every policy.
func TestEveryPolicyIsNamedWhereOneIsChosen(t *testing.T) {
	whole := slices.DeleteFunc(match.Policies(), func(p string) bool { return !match.IsExclusive(p) })
	for name, policies := range map[string][]string{
		"docs/topology.md": whole,
		"manifests/charts/fluence/templates/tenants.yaml": whole,
		"manifests/charts/fluence/templates/_helpers.tpl": whole,
		"docs/policies.md":                            match.Policies(),
		"manifests/examples/match-policy.yaml":        match.Policies(),
		"docs/matching.md":                            match.GraphPolicies(),
		"manifests/scheduler-config.yaml":             match.Policies(),
		"manifests/charts/fluence/values.yaml":        match.Policies(),
		"manifests/charts/fluence/values.schema.json": match.Policies(),
	} {
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		for _, policy := range policies {
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(policy) + `\b`).Match(text) {
				t.Errorf("%s does not name the policy %s", name, policy)
			}
		}
	}
}
