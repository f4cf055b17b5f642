package gang

import (
	"fmt"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// incomplete says why a group that has not started may not ask for resources.
func (r *rules) incomplete(s *state) (why, message string) {
	if !s.checked {
		s.lacksReason, s.lacksMessage = r.check(s)
		s.checked = true
	}
	return s.lacksReason, s.lacksMessage
}

func (r *rules) check(s *state) (why, message string) {
	for _, m := range s.members {
		if !m.waits() {
			continue
		}
		if m.unseen != (group.Owner{}) && !s.named {
			return reason.OwnerNotSeen, fmt.Sprintf("waits until %s %s is seen, which controls the pod", m.unseen.Kind, m.unseen.Name)
		}
		if m.fault != nil {
			return m.fault.Reason, m.fault.Message
		}
		if m.badPolicy != nil && (s.podGroup == nil || s.podGroup.Policy == "") {
			return reason.InvalidMatchPolicy, m.badPolicy.Error()
		}
	}
	if err := s.asked().err; err != nil {
		return reason.InvalidTopology, err.Error()
	}
	if s.podGroup != nil {
		if err := group.ValidPolicy(s.podGroup.Policy); err != nil {
			return reason.InvalidMatchPolicy, err.Error()
		}
	}
	for _, m := range s.members {
		if !m.waits() {
			continue
		}
		if why := r.denied(m); why != "" {
			return reason.NotAllowed, why
		}
	}
	if s.podGroup == nil {
		if !s.gang {
			return "", ""
		}
		return reason.NoPodGroup, fmt.Sprintf("waits for PodGroup %s, which does not exist; pods that are to have one made say their number by the label %s", s.key, group.SizeLabel)
	}
	want := int(s.podGroup.MinMember)
	if have := s.count((*member).waits) + s.brought; have < want || len(s.members) == 0 {
		pods := "pods"
		if want-have <= 1 {
			pods = "pod"
		}
		return reason.Gathering, fmt.Sprintf("waits for %d more %s: has %d of minMember %d", max(1, want-have), pods, have, want)
	}
	return "", ""
}
