package gang

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// A Verdict says whether a pod may enter the scheduling queue.
type Verdict struct {
	// Pass is true if the pod may enter.
	Pass bool
	// Reason is why the pod may not enter. It is empty if the pod waits for its siblings.
	Reason string
	// Message explains why. It is empty if the pod only waits for its group's representative.
	Message string
	// PodsToPlace is how many pods the cycle of a pod that passes will
	// place, if its group may have to wait for admission. It is 0 for a
	// pod with an assignment, and for a replacement of a missing member.
	PodsToPlace int
	// Key is the key of the group, if the pod passes to be placed. Otherwise it is zero.
	Key types.NamespacedName
	// Rank is the pod's place in the queue, if the pod passes to be placed.
	Rank Rank
	// Abandoned is the job of an assignment that a scheduling cycle claimed before it ended
	// without a result. The caller has to revoke it by RevokeAbandoned. It is 0 if there is none.
	Abandoned match.JobID
}

// whyEvicted is the message for pods of a group that is being evicted.
const whyEvicted = "the group is evicted for a group of higher priority; waits until its pods have gone and that group has room"

// verdict decides whether a member may enter the queue. It may choose a
// representative, and updates since when the group has been complete.
func (r *rules) verdict(m *member, now time.Time) Verdict {
	s := m.group
	switch {
	case m.assignment != nil:
		// No cycle is under way for a pod that comes here. If a cycle has
		// claimed the assignment and not reserved it, the cycle has lost it.
		if m.assignment.claimed && !m.assignment.reserved {
			return Verdict{Abandoned: m.assignment.job}
		}
		if !m.isNext() {
			return Verdict{Message: fmt.Sprintf("has node %s; waits until the pods that come before it in its group have their nodes", m.assignment.slot.Node)}
		}
		return Verdict{Pass: true}
	case r.isEvicted != nil && r.isEvicted(s.key):
		// A started group that lacks members goes before all others, and would take its room back at once.
		return Verdict{Reason: reason.Preempted, Message: whyEvicted}
	case s.started && m.refusal.isActive(now):
		return Verdict{Reason: m.refusal.Reason, Message: m.refusal.Message}
	case s.started:
		if why, msg := r.whyInQueue(s, m.pod); why != "" {
			return Verdict{Reason: why, Message: msg}
		}
		if why := freshStageOf(m).whyGathers(); why != "" {
			return Verdict{Reason: reason.Gathering, Message: why}
		}
		if _, err := s.policyOr("", m); err != nil {
			return Verdict{Reason: reason.InvalidMatchPolicy, Message: err.Error()}
		}
		if err := s.effectiveTopology().err; err != nil {
			return Verdict{Reason: whyInvalidTopology(err), Message: err.Error()}
		}
		if s.exclusivity == Exclusive {
			if why := r.whyDeniedMore(s); why != "" {
				return Verdict{Reason: reason.NotAllowed, Message: "the group runs on whole nodes and may not get more of them: " + why}
			}
		}
		return Verdict{Pass: s.chooseLateRepresentative(now) == m.pod.UID}
	case s.permitted:
		return Verdict{Message: "waits until the first pod of the group is bound"}
	}
	if why, msg := r.whyNotYet(s); why != "" {
		s.hasLacked = true
		return Verdict{Reason: why, Message: msg}
	}
	if s.completeSince.IsZero() {
		s.completeSince = now
	}
	if s.refusal.isActive(now) {
		return Verdict{Reason: s.refusal.Reason, Message: s.refusal.Message}
	}
	if s.hasLacked {
		s.hasLacked, s.completeAgainAt = false, now.Truncate(creationPrecision)
	}
	return Verdict{Pass: s.chooseRepresentative() == m.pod.UID}
}

// whyInQueue is whyQueued for a group with a pod, which may be nil.
func (r *rules) whyInQueue(s *groupState, pod *corev1.Pod) (why, message string) {
	if r.whyQueued == nil {
		return "", ""
	}
	return r.whyQueued(s.key, pod)
}

// whyNotYet returns why a group that has not started may not be placed yet, whatever room there is. Both results are empty
// if it may. What somebody has to correct comes before its turn in a queue, and that before what it still lacks.
func (r *rules) whyNotYet(s *groupState) (why, message string) {
	why, message = r.whyGathering(s)
	if reason.PropertiesOf(why).Invalid || why == reason.OwnerNotSeen {
		return why, message
	}
	var pod *corev1.Pod
	if m := s.members[s.chooseRepresentative()]; m != nil {
		pod = m.pod
	}
	if queued, text := r.whyInQueue(s, pod); queued != "" {
		return queued, text
	}
	return why, message
}

// appendEnqueueable appends the pod that may enter the queue for a group now, if there is one.
func (r *rules) appendEnqueueable(pods []*corev1.Pod, s *groupState, now time.Time) []*corev1.Pod {
	representative := s.chooseRepresentative
	if s.started {
		representative = func() types.UID { return s.chooseLateRepresentative(now) }
	}
	if m := s.members[representative()]; m != nil && m.assignment == nil && r.verdict(m, now).Pass {
		pods = append(pods, m.pod)
	}
	return pods
}
