package gang

import (
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
)

// whyDenied returns why a group may not have the whole nodes that its annotations, and
// the policy that a pod names, ask for. It returns nothing if the group may have them, or asks
// for none. If the scheduler's own policy gives whole nodes, the annotations need not ask.
func (r *rules) whyDenied(s *groupState, podPolicy string) string {
	annotation, value := r.exclusiveRequest(s, podPolicy)
	if annotation == "" || r.exclusiveRules.WhyDenied == nil {
		return ""
	}
	if why := r.exclusiveRules.WhyDenied(s.key.Namespace); why != "" {
		return group.DeniedMessage(annotation, value, why)
	}
	return ""
}

// exclusiveRequest returns the annotation, and its value, that asks for whole nodes for a
// group with a pod that names this policy. Both are empty if there is none.
func (r *rules) exclusiveRequest(s *groupState, podPolicy string) (annotation, value string) {
	if match.IsExclusive(r.policy) {
		return "", ""
	}
	if s.effectiveTopology().exclusive {
		return group.ExclusiveAnnotation, group.ExclusiveTrue
	}
	if policy, err := s.namedPolicy(r.policy, podPolicy); err == nil && match.IsExclusive(policy) {
		return group.MatchPolicyAnnotation, policy
	}
	return "", ""
}

// lateAnnotation returns the annotation that asks for whole nodes for
// a group that shares its nodes. The annotation came after the match,
// and counts from the next match on. Empty means that there is none.
func (r *rules) lateAnnotation(s *groupState) (annotation string) {
	if s.exclusivity == Shared {
		s.update()
		for asked := range s.requests {
			if annotation, _ = r.exclusiveRequest(s, asked.policy); annotation != "" {
				break
			}
		}
	}
	return annotation
}

// wantsExclusive reports whether a match would now give whole nodes to the member's group.
func (r *rules) wantsExclusive(m *member) bool {
	policy, err := m.group.policyOr(r.policy, m)
	return err == nil && match.IsExclusive(policy) && r.whyDenied(m.group, m.namedPolicy()) == ""
}

// policyFor returns the policy for a match of a member. A group that
// has whole nodes gets more whole nodes, and a group that shares its
// nodes gets more shared ones, whatever the annotations say now.
func (r *rules) policyFor(m *member) string {
	// verdict has refused an invalid policy before.
	policy, _ := m.group.policyOr(r.policy, m)
	switch m.group.exclusivity {
	case Exclusive:
		return exclusivePolicy(policy)
	case Shared:
		return sharedPolicy(policy)
	case ExclusivityUnknown:
	}
	return policy
}

// exclusiveHolder returns the key of the member's group if the member's node is exclusive to the
// group, and nothing if the node is shared. While that is not settled, the annotations decide.
func (r *rules) exclusiveHolder(m *member) string {
	effective := m.exclusivity
	if effective == ExclusivityUnknown {
		effective = m.group.exclusivity
	}
	if effective == Exclusive || effective == ExclusivityUnknown && r.wantsExclusive(m) {
		return m.group.key.String()
	}
	return ""
}

// whyDeniedMore returns why a group that has whole nodes may
// not have more of them. The group keeps the nodes that it has.
func (r *rules) whyDeniedMore(s *groupState) string {
	if match.IsExclusive(r.policy) || r.exclusiveRules.WhyDenied == nil {
		return ""
	}
	return r.exclusiveRules.WhyDenied(s.key.Namespace)
}

// isOnSharedNode reports whether a member's node cannot be exclusive to its group.
// Either pods of other namespaces are on the node, or the namespace may not have
// whole nodes any more and the PodGroup's status does not say whose the node is.
func (r *rules) isOnSharedNode(s *groupState, m *member) bool {
	if r.exclusiveRules.HasForeignPods != nil && r.exclusiveRules.HasForeignPods(m.pod.Spec.NodeName, s.key.Namespace) {
		return true
	}
	return s.recordedExclusivity(m) == ExclusivityUnknown && r.whyDeniedMore(s) != ""
}

// recordedExclusivity returns what the PodGroup's status says about a
// member's node. The status says nothing about pods that were created
// after it was written: they are late, or belong to another incarnation.
func (s *groupState) recordedExclusivity(m *member) Exclusivity {
	if s.podGroup == nil || m.pod.CreationTimestamp.After(s.podGroup.ExclusivitySince) {
		return ExclusivityUnknown
	}
	return s.podGroup.Exclusivity
}

// resetExclusivity forgets whether the nodes of a group are exclusive, so that
// settleExclusivity decides anew. It does nothing if this process matched the group, or
// if the PodGroup's status still has the value was. It reports whether it did something.
func (s *groupState) resetExclusivity(was Exclusivity) bool {
	if s.matchedHere || s.podGroup.Exclusivity == was {
		return false
	}
	s.exclusivity = ExclusivityUnknown
	for _, m := range s.members {
		m.exclusivity = ExclusivityUnknown
		s.changed(m)
	}
	return true
}
