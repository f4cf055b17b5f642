package gang

import (
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
)

// whyDenied says why the member's group may not have the whole nodes that its annotations ask
// for; nothing if it may, or asks for none. Where the scheduler's own policy gives whole nodes
// the annotations need not ask for them.
func (r *rules) whyDenied(m *member) string {
	annotation, value := r.exclusiveRequest(m)
	if annotation == "" || r.exclusiveRules.WhyDenied == nil {
		return ""
	}
	if why := r.exclusiveRules.WhyDenied(m.group.key.Namespace); why != "" {
		return group.DeniedMessage(annotation, value, why)
	}
	return ""
}

// exclusiveRequest returns the annotation, and its value, by which the member's group asks for
// whole nodes; both are empty if there is none.
func (r *rules) exclusiveRequest(m *member) (annotation, value string) {
	if match.IsExclusive(r.policy) {
		return "", ""
	}
	s := m.group
	if s.effectiveTopology().exclusive {
		return group.ExclusiveAnnotation, group.ExclusiveTrue
	}
	if m.pod.Annotations[group.MatchPolicyAnnotation] == "" && (s.podGroup == nil || s.podGroup.Policy == "") {
		return "", ""
	}
	if policy, err := s.namedPolicy(r.policy, m); err == nil && match.IsExclusive(policy) {
		return group.MatchPolicyAnnotation, policy
	}
	return "", ""
}

// lateAnnotation returns the annotation by which a group that shares its nodes asks for whole
// ones: it came after the match, and counts from the next one on.
func (r *rules) lateAnnotation(s *groupState) (annotation string) {
	if s.exclusivity == Shared {
		for _, m := range s.members {
			if annotation, _ = r.exclusiveRequest(m); annotation != "" {
				break
			}
		}
	}
	return annotation
}

// wantsExclusive says whether the member's group would be given whole nodes now.
func (r *rules) wantsExclusive(m *member) bool {
	policy, err := m.group.policyOr(r.policy, m)
	return err == nil && match.IsExclusive(policy) && r.whyDenied(m) == ""
}

// policyFor returns the policy of a match for a member. A group that has nodes gets more of
// the same kind, whatever its annotations say now.
func (r *rules) policyFor(m *member) string {
	// What is wrong with it was admit's to say.
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

// exclusiveHolder names the group whose a member's node is as a whole, empty where it is shared. Until
// that is settled it is what the annotations say.
func (r *rules) exclusiveHolder(m *member) string {
	is := m.exclusivity
	if is == ExclusivityUnknown {
		is = m.group.exclusivity
	}
	if is == Exclusive || is == ExclusivityUnknown && r.wantsExclusive(m) {
		return m.group.key.String()
	}
	return ""
}

// whyDeniedMore says why a group that has whole nodes may not have more of them: what they have they
// keep.
func (r *rules) whyDeniedMore(s *groupState) string {
	if match.IsExclusive(r.policy) || r.exclusiveRules.WhyDenied == nil {
		return ""
	}
	return r.exclusiveRules.WhyDenied(s.key.Namespace)
}

// isOnSharedNode says whether a member's node cannot be its group's: others are there, or the member
// came when its namespace might not have whole nodes any more.
func (r *rules) isOnSharedNode(s *groupState, m *member) bool {
	if r.exclusiveRules.HasForeignPods != nil && r.exclusiveRules.HasForeignPods(m.pod.Spec.NodeName, s.key.Namespace) {
		return true
	}
	return s.recordedExclusivity(m) == ExclusivityUnknown && r.whyDeniedMore(s) != ""
}

// recordedExclusivity is what the PodGroup's status says of a member's node. It says nothing of pods that
// were made after it was written: they are of another incarnation, or came late.
func (s *groupState) recordedExclusivity(m *member) Exclusivity {
	if s.podGroup == nil || m.pod.CreationTimestamp.After(s.podGroup.ExclusivitySince) {
		return ExclusivityUnknown
	}
	return s.podGroup.Exclusivity
}

// resetExclusivity has fence settle anew whose the nodes are of a group that this process did not match,
// where the status has come to say something else than before. It says whether that is so.
func (s *groupState) resetExclusivity(was Exclusivity) bool {
	if s.matched || s.podGroup.Exclusivity == was {
		return false
	}
	s.exclusivity = ExclusivityUnknown
	for _, m := range s.members {
		m.exclusivity = ExclusivityUnknown
	}
	return true
}
