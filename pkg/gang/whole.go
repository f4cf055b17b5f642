package gang

import (
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/match"
)

// denied says why the member's group may not have the whole nodes that its annotations ask
// for; nothing if it may, or asks for none. Where the scheduler's own policy gives whole nodes
// the annotations need not ask for them.
func (r *rules) denied(m *member) string {
	annotation, value := r.asksForWhole(m)
	if annotation == "" || r.wholeNodes.Denied == nil {
		return ""
	}
	if why := r.wholeNodes.Denied(m.group.key.Namespace); why != "" {
		return group.TellDenied(annotation, value, why)
	}
	return ""
}

// asksForWhole returns the annotation, and its value, by which the member's group asks for
// whole nodes; both are empty if there is none.
func (r *rules) asksForWhole(m *member) (annotation, value string) {
	if match.TakesWhole(r.policy) {
		return "", ""
	}
	s := m.group
	if s.asked().exclusive {
		return group.ExclusiveAnnotation, group.ExclusiveYes
	}
	if m.pod.Annotations[group.MatchPolicyAnnotation] == "" && (s.podGroup == nil || s.podGroup.Policy == "") {
		return "", ""
	}
	if policy, err := s.namedPolicy(r.policy, m); err == nil && match.TakesWhole(policy) {
		return group.MatchPolicyAnnotation, policy
	}
	return "", ""
}

// asksInVain returns the annotation by which a group that shares its nodes asks for whole
// ones: it came after the match, and counts from the next one on.
func (r *rules) asksInVain(s *state) (annotation string) {
	if s.fenced == WholeNo {
		for _, m := range s.members {
			if annotation, _ = r.asksForWhole(m); annotation != "" {
				break
			}
		}
	}
	return annotation
}

// wants says whether the member's group would be given whole nodes now.
func (r *rules) wants(m *member) bool {
	policy, err := m.group.policyOr(r.policy, m)
	return err == nil && match.TakesWhole(policy) && r.denied(m) == ""
}

// policyFor returns the policy of a match for a member. A group that has nodes gets more of
// the same kind, whatever its annotations say now.
func (r *rules) policyFor(m *member) string {
	// What is wrong with it was admit's to say.
	policy, _ := m.group.policyOr(r.policy, m)
	switch m.group.fenced {
	case WholeYes:
		return whole(policy)
	case WholeNo:
		return shared(policy)
	case WholeUnknown:
	}
	return policy
}

// holder names the group whose a member's node is as a whole, empty where it is shared. Until
// that is settled it is what the annotations say.
func (r *rules) holder(m *member) string {
	is := m.fenced
	if is == WholeUnknown {
		is = m.group.fenced
	}
	if is == WholeYes || is == WholeUnknown && r.wants(m) {
		return m.group.key.String()
	}
	return ""
}

// revoked says why a group that has whole nodes may not have more of them: what they have they
// keep.
func (r *rules) revoked(s *state) string {
	if match.TakesWhole(r.policy) || r.wholeNodes.Denied == nil {
		return ""
	}
	return r.wholeNodes.Denied(s.key.Namespace)
}

// stranger says whether a member's node cannot be its group's: others are there, or the member
// came when its namespace might not have whole nodes any more.
func (r *rules) stranger(s *state, m *member) bool {
	if r.wholeNodes.Shared != nil && r.wholeNodes.Shared(m.pod.Spec.NodeName, s.key.Namespace) {
		return true
	}
	return s.recordFor(m) == WholeUnknown && r.revoked(s) != ""
}

// recordFor is what the PodGroup's status says of a member's node. It says nothing of pods that
// were made after it was written: they are of another incarnation, or came late.
func (s *state) recordFor(m *member) WholeRecord {
	if s.podGroup == nil || m.pod.CreationTimestamp.After(s.podGroup.WholeSince) {
		return WholeUnknown
	}
	return s.podGroup.Whole
}

// unfence has fence settle anew whose the nodes are of a group that this process did not match,
// where the status has come to say something else than before. It says whether that is so.
func (s *state) unfence(was WholeRecord) bool {
	if s.matched || s.podGroup.Whole == was {
		return false
	}
	s.fenced = WholeUnknown
	for _, m := range s.members {
		m.fenced = WholeUnknown
	}
	return true
}
