package gang

import (
	"fmt"
	"maps"
	"slices"

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
	if isAtRest(s) && s.podGroup.EndedAs != (Fault{}) {
		return s.podGroup.EndedAs.Reason, s.podGroup.EndedAs.Message
	}
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
		if m.durationError != nil && (s.podGroup == nil || s.podGroup.Duration == "") {
			return reason.InvalidAnnotation, m.durationError.Error()
		}
	}
	if s.podGroup != nil && s.podGroup.Fault != (Fault{}) {
		return s.podGroup.Fault.Reason, s.podGroup.Fault.Message
	}
	if err := s.effectiveTopology().err; err != nil {
		return whyInvalidTopology(err), err.Error()
	}
	if s.podGroup != nil {
		if err := group.ValidateMatchPolicy(s.podGroup.Policy); err != nil {
			return reason.InvalidMatchPolicy, err.Error()
		}
		if _, err := group.ParseDuration(s.podGroup.Duration); err != nil {
			return reason.InvalidAnnotation, err.Error()
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
		return reason.NoPodGroup, r.whyNoPodGroup(s)
	}
	want := minMemberOf(s)
	if s.isNative {
		if why, message := whyNotNative(s); why != "" {
			return why, message
		}
	}
	if have := s.number(waitingMembers) + s.preplaced(); have < want || len(s.members) == 0 {
		if s.podGroup.Suspended {
			return reason.Suspended, s.podGroup.WhyNotExpected
		}
		pods, absent := "pods", ""
		if want-have <= 1 {
			pods = "pod"
		}
		if s.podGroup.WhyNotExpected != "" {
			absent = "; " + s.podGroup.WhyNotExpected
		}
		return reason.Gathering, fmt.Sprintf("waits for %d more %s: has %d of %s %d%s", max(1, want-have), pods, have, minimumName(s), want, absent)
	}
	return "", ""
}

// whyNoPodGroup says in words what has to be done so that the PodGroup exists.
func (r *rules) whyNoPodGroup(s *groupState) string {
	switch {
	case s.isNative && r.whyNativeUnread != "":
		return fmt.Sprintf("waits for %s: %s", group.KeyText(s.key), r.whyNativeUnread)
	case s.isNative:
		return fmt.Sprintf("waits for %s, which does not exist: create it", group.KeyText(s.key))
	}
	return fmt.Sprintf("waits for %s, which does not exist: create it, or set the label %s on the pods to have it created", group.KeyText(s.key), group.SizeLabel)
}

// whyNotNative returns why a group with a native PodGroup may not be placed
// yet, apart from the number of its pods. Both results are empty if it may.
func whyNotNative(s *groupState) (why, message string) {
	if s.podGroup.MinMember == 0 && s.number(membersNeedingMinimum) > 0 {
		return reason.NoMinimum, fmt.Sprintf("%s has the policy basic, which says no minimum, and its annotation %s does not say one: the controller writes it within seconds", group.KeyText(s.key), group.MinMemberAnnotation)
	}
	s.update()
	for _, p := range slices.Sorted(maps.Keys(s.priorities)) {
		if p != s.podGroup.Priority {
			return reason.InvalidPriority, fmt.Sprintf("pods have priority %d, and %s has %d: all pods of such a group must have its priority", p, group.KeyText(s.key), s.podGroup.Priority)
		}
	}
	return "", ""
}

// minimumName returns what the minimum of a group with a PodGroup is called in messages.
func minimumName(s *groupState) string {
	switch {
	case !s.isNative:
		return "minMember"
	case s.podGroup.Basic:
		return "the minimum"
	}
	return "minCount"
}
