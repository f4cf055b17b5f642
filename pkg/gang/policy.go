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
	policy, err := s.namedPolicy(def, m.namedPolicy())
	if s.effectiveTopology().exclusive {
		policy = exclusivePolicy(policy)
	}
	return policy, err
}

// namedPolicy returns what policyOr does for a pod that names
// a policy, or none, but without regard to whole nodes.
func (s *groupState) namedPolicy(def, podPolicy string) (string, error) {
	policy := podPolicy
	if s.podGroup != nil {
		policy = cmp.Or(s.podGroup.Policy, podPolicy)
	}
	if policy == "" {
		return def, nil
	}
	return policy, group.ValidateMatchPolicy(policy)
}

// namedPolicy returns the policy that the member's pod names, or nothing.
func (m *member) namedPolicy() string { return m.pod.Annotations[group.MatchPolicyAnnotation] }

// exclusivePolicy returns the policy of the same order that takes whole
// nodes. An empty policy, the matcher's own choice, counts as PolicyLonode.
func exclusivePolicy(policy string) string {
	return match.WithExclusive(cmp.Or(policy, match.PolicyLonode), true)
}

// sharedPolicy returns the policy of the same order that takes only what is asked for.
func sharedPolicy(policy string) string { return match.WithExclusive(policy, false) }
