package gang

import (
	"cmp"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
)

// policyOr returns the match policy that the PodGroup names, or else the pod of m, or
// else def. For a group that is to have whole nodes, it returns the exclusive policy of
// the same order. An error names the annotation and the value in words fit for a user.
func (s *groupState) policyOr(def string, m *member) (string, error) {
	policy, err := s.namedPolicy(def, m)
	if s.effectiveTopology().exclusive {
		policy = exclusivePolicy(policy)
	}
	return policy, err
}

// namedPolicy returns what policyOr does, but without regard to whole nodes.
func (s *groupState) namedPolicy(def string, m *member) (string, error) {
	var podGroup map[string]string
	if s.podGroup != nil {
		podGroup = map[string]string{group.MatchPolicyAnnotation: s.podGroup.Policy}
	}
	policy := group.Annotation(group.MatchPolicyAnnotation, podGroup, m.pod)
	if policy == "" {
		return def, nil
	}
	return policy, group.ValidateMatchPolicy(policy)
}

// exclusivePolicy returns the policy of the same order that takes whole
// nodes. An empty policy, the matcher's own choice, counts as PolicyLonode.
func exclusivePolicy(policy string) string {
	return match.WithExclusive(cmp.Or(policy, match.PolicyLonode), true)
}

// sharedPolicy returns the policy of the same order that takes only what is asked for.
func sharedPolicy(policy string) string { return match.WithExclusive(policy, false) }
