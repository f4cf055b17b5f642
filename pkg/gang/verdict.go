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
	// Asks is for how many pods one that passes is to ask, where its group may wait for its
	// turn: it is 0 for a pod with a seat, and for one that takes the place of a member which its started group lacks.
	Asks int
	// Key is the group's, and Rank the pod's place in the queue, where a pod passes that is to
	// ask. Both are zero for a pod with a seat.
	Key  types.NamespacedName
	Rank Rank
	// Lost is the job of a seat that a scheduling cycle took up before it ended
	// without a word: the caller is to give the seat back by Abandon. It is 0 where
	// there is none.
	Lost match.JobID
}

// admit decides on a member that wants to enter the queue.
func (r *rules) admit(m *member, now time.Time) Verdict {
	s := m.group
	switch {
	case m.seat != nil:
		// A pod comes here only when no cycle is under way for it. A seat that a
		// cycle took up and did not reserve was lost with that cycle.
		if m.seat.tried && !m.seat.reserved {
			return Verdict{Lost: m.seat.job}
		}
		if !m.turn() {
			return Verdict{Message: "waits for its turn among its siblings"}
		}
		return Verdict{Pass: true}
	case s.started && m.refusal.standsAt(now):
		return Verdict{Reason: m.refusal.Reason, Message: m.refusal.Message}
	case s.started:
		if _, err := s.policyOr("", m); err != nil {
			return Verdict{Reason: reason.InvalidMatchPolicy, Message: err.Error()}
		}
		if err := s.asked().err; err != nil {
			return Verdict{Reason: reason.InvalidTopology, Message: err.Error()}
		}
		if s.fenced == WholeYes {
			if why := r.revoked(s); why != "" {
				return Verdict{Reason: reason.NotAllowed, Message: "the group has whole nodes, and may not have more: " + why}
			}
		}
		return Verdict{Pass: s.chooseLate(now) == m.pod.UID}
	case s.permitted:
		return Verdict{Message: "waits until the group has started"}
	}
	if why, msg := r.incomplete(s); why != "" {
		s.lacked = true
		return Verdict{Reason: why, Message: msg}
	}
	if s.complete.IsZero() {
		s.complete = now
	}
	if s.refusal.standsAt(now) {
		return Verdict{Reason: s.refusal.Reason, Message: s.refusal.Message}
	}
	if s.lacked {
		s.lacked, s.completed = false, now.Truncate(exactly)
	}
	return Verdict{Pass: s.choose() == m.pod.UID}
}

// admissible adds the pod that may ask for a group now, if there is one.
func (r *rules) admissible(pods []*corev1.Pod, s *state, now time.Time) []*corev1.Pod {
	asks := s.choose
	if s.started {
		asks = func() types.UID { return s.chooseLate(now) }
	}
	if m := s.members[asks()]; m != nil && m.seat == nil && r.admit(m, now).Pass {
		pods = append(pods, m.pod)
	}
	return pods
}
