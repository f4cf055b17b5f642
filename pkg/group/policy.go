package group

import (
	"fmt"
	"slices"

	"github.com/flux-k8s/fluence/pkg/match"
)

// policyOr returns the policy that the group names, or a pod of it, and else def; of
// a group that is to have whole nodes the one that takes them. An error names the
// annotation and the value in words fit for a user.
func (s *state) policyOr(def string, m *member) (string, error) {
	policy, err := s.namedPolicy(def, m)
	if s.asked().exclusive {
		policy = whole(policy)
	}
	return policy, err
}

func (s *state) namedPolicy(def string, m *member) (string, error) {
	var podGroup map[string]string
	if s.podGroup != nil {
		podGroup = map[string]string{MatchPolicyAnnotation: s.podGroup.Policy}
	}
	policy := Annotation(MatchPolicyAnnotation, podGroup, m.pod)
	if policy == "" {
		return def, nil
	}
	return policy, validPolicy(policy)
}

func validPolicy(policy string) error {
	if policy != "" && !slices.Contains(match.Policies(), policy) {
		return fmt.Errorf("annotation %s: %q: must be one of %q", MatchPolicyAnnotation, policy, match.Policies())
	}
	return nil
}
