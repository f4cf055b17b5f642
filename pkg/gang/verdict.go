package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// A Verdict says whether a pod may enter the scheduling queue.
type Verdict struct {
	Pass bool
	// Reason and Message say why not. Both are empty where a pod only waits for
	// its group's representative.
	Reason  string
	Message string
	// PodsToPlace is for how many pods one that passes is to ask, where its group may wait for its
	// turn: it is 0 for a pod with a seat, and for one that takes the place of a member which its started group lacks.
	PodsToPlace int
	// Key is the group's, and Rank the pod's place in the queue, where a pod passes that is to
	// ask. Both are zero for a pod with a seat.
	Key  types.NamespacedName
	Rank Rank
	// Lost is the job of a seat that a scheduling cycle took up before it ended
	// without a word: the caller is to give the seat back by Abandon. It is 0 where
	// there is none.
	Lost match.JobID
}

// verdict decides on a member that wants to enter the queue.
func (r *rules) verdict(m *member, now time.Time) Verdict {
	s := m.group
	switch {
	case m.assignment != nil:
		// A pod comes here only when no cycle is under way for it. A seat that a
		// cycle took up and did not reserve was lost with that cycle.
		if m.assignment.claimed && !m.assignment.reserved {
			return Verdict{Lost: m.assignment.job}
		}
		if !m.isNext() {
			return Verdict{Message: "waits for its turn among its siblings"}
		}
		return Verdict{Pass: true}
	case s.started && m.refusal.isActive(now):
		return Verdict{Reason: m.refusal.Reason, Message: m.refusal.Message}
	case s.started:
		if _, err := s.policyOr("", m); err != nil {
			return Verdict{Reason: reason.InvalidMatchPolicy, Message: err.Error()}
		}
		if err := s.effectiveTopology().err; err != nil {
			return Verdict{Reason: reason.InvalidTopology, Message: err.Error()}
		}
		if s.exclusivity == Exclusive {
			if why := r.whyDeniedMore(s); why != "" {
				return Verdict{Reason: reason.NotAllowed, Message: "the group has whole nodes, and may not have more: " + why}
			}
		}
		return Verdict{Pass: s.chooseLateRepresentative(now) == m.pod.UID}
	case s.permitted:
		return Verdict{Message: "waits until the group has started"}
	}
	if why, msg := r.whyGathering(s); why != "" {
		s.wasGathering = true
		return Verdict{Reason: why, Message: msg}
	}
	if s.completeSince.IsZero() {
		s.completeSince = now
	}
	if s.refusal.isActive(now) {
		return Verdict{Reason: s.refusal.Reason, Message: s.refusal.Message}
	}
	if s.wasGathering {
		s.wasGathering, s.completedAt = false, now.Truncate(exactly)
	}
	return Verdict{Pass: s.chooseRepresentative() == m.pod.UID}
}

// appendEnqueueable adds the pod that may ask for a group now, if there is one.
func (r *rules) appendEnqueueable(pods []*corev1.Pod, s *groupState, now time.Time) []*corev1.Pod {
	asks := s.chooseRepresentative
	if s.started {
		asks = func() types.UID { return s.chooseLateRepresentative(now) }
	}
	if m := s.members[asks()]; m != nil && m.assignment == nil && r.verdict(m, now).Pass {
		pods = append(pods, m.pod)
	}
	return pods
}
