package gang

import (
	"fmt"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// whyGathering returns why a group that has not started may not be placed yet. Both results
// are empty if it may. They are kept until recompute, because whyGathering is called often.
func (r *rules) whyGathering(s *groupState) (why, message string) {
	if !s.gatheringKnown {
		s.gatheringReason, s.gatheringMessage = r.findWhyGathering(s)
		s.gatheringKnown = true
	}
	return s.gatheringReason, s.gatheringMessage
}

// findWhyGathering finds what whyGathering returns.
func (r *rules) findWhyGathering(s *groupState) (why, message string) {
	for _, m := range s.membersWith(faultyMembers) {
		if m.missingOwner != (group.Owner{}) && !s.inPodGroup {
			return reason.OwnerNotSeen, fmt.Sprintf("waits until the scheduler has seen %s %s, the owner of the pod", m.missingOwner.Kind, m.missingOwner.Name)
		}
		if m.labelFault != nil {
			return m.labelFault.Reason, m.labelFault.Message
		}
		if m.policyError != nil && (s.podGroup == nil || s.podGroup.Policy == "") {
			return reason.InvalidMatchPolicy, m.policyError.Error()
		}
	}
	if err := s.effectiveTopology().err; err != nil {
		return reason.InvalidTopology, err.Error()
	}
	if s.podGroup != nil {
		if err := group.ValidateMatchPolicy(s.podGroup.Policy); err != nil {
			return reason.InvalidMatchPolicy, err.Error()
		}
	}
	for asked, count := range s.requests {
		if count.waiting == 0 {
			continue
		}
		if why := r.whyDenied(s, asked.policy); why != "" {
			return reason.NotAllowed, why
		}
	}
	if s.podGroup == nil {
		if !s.needsPodGroup() {
			return "", ""
		}
		return reason.NoPodGroup, fmt.Sprintf("waits for PodGroup %s, which does not exist: create it, or set the label %s on the pods to have it created", s.key, group.SizeLabel)
	}
	want := minMemberOf(s)
	if have := s.number(waitingMembers) + s.preplaced(); have < want || len(s.members) == 0 {
		pods := "pods"
		if want-have <= 1 {
			pods = "pod"
		}
		return reason.Gathering, fmt.Sprintf("waits for %d more %s: has %d of minMember %d", max(1, want-have), pods, have, want)
	}
	return "", ""
}
