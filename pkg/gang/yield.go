package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Yield makes a group leave its turn to the next group, because no nodes can
// be reserved for it. why is the reason as users read it. blockedNodes has the nodes
// with pods that do not end. If why is empty, the group ceases to yield.
func (g Turns) Yield(key types.NamespacedName, why string, blockedNodes *NodeBloomFilter, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return
	}
	if s.hastened {
		s.pause = min(max(2*s.pause, minYieldPause), maxYieldPause)
	} else {
		s.pause = minYieldPause
	}
	s.yieldReason, s.blockedNodes, s.lastAttempt, s.nextAttempt = why, blockedNodes, now, now.Add(maxYieldPause)
	s.attemptDue, s.hastened = false, false
	g.updateYield(s)
}

// WhyYields returns why a group leaves its turn to the next. It returns
// nothing if the group does not yield, or if that may have changed:
// nodes have changed, a blocker has gone, or maxYieldPause has passed.
func (g Turns) WhyYields(key types.NamespacedName, now time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && !s.attemptDue && now.Before(s.nextAttempt) {
		return s.yieldReason
	}
	return ""
}

const (
	// maxYieldPause is the time after which a group that
	// yields makes the next attempt to have nodes reserved.
	maxYieldPause = time.Minute
	// minYieldPause is the shortest time between two such attempts. It
	// doubles, up to maxYieldPause, with each attempt that a change has
	// hastened. Otherwise anyone could cause many attempts with pods that
	// come and go, and the group's namespace would be charged for them.
	minYieldPause = 5 * time.Second
)

// BlockerGone records that a pod that would not have ended has gone.
// It hastens the next attempt of the groups that the pod may have
// blocked: it was on one of their blocked nodes at their last attempt.
func (g Turns) BlockerGone(gone *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.yielders {
		if !s.isAttemptNear() && s.blockedNodes.Has(gone.Spec.NodeName) && !gone.CreationTimestamp.After(s.lastAttempt) {
			s.hastenAttempt()
		}
	}
}

// YieldersDue returns the groups that yield and are due to make an attempt, each
// once: nodes have changed, a blocker has gone, or maxYieldPause has passed.
func (g Turns) YieldersDue(now time.Time) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []types.NamespacedName
	for _, s := range g.yielders {
		if !now.Before(s.nextAttempt) {
			s.attemptDue, s.nextAttempt = true, now.Add(maxYieldPause)
			keys = append(keys, s.key)
		}
	}
	return keys
}

// hastenYielders hastens the next attempt of all groups that yield.
func (g *core) hastenYielders() {
	for _, s := range g.yielders {
		s.hastenAttempt()
	}
}

// hastenAttempt brings the next attempt of a group that yields forward to the end of its pause.
func (s *yieldState) hastenAttempt() {
	if !s.isAttemptNear() {
		s.hastened, s.nextAttempt = true, s.lastAttempt.Add(s.pause)
	}
}

// isAttemptNear reports whether the next attempt was brought forward or is due.
func (s *yieldState) isAttemptNear() bool { return s.attemptDue || s.hastened }

// clearYield ends the yielding, because the group waits for something else
// now. The next pause is the shortest again: the group has to wait as a
// new group does before its next attempt, and is charged for each attempt.
func (s *yieldState) clearYield() {
	s.yieldReason, s.blockedNodes, s.pause, s.attemptDue, s.hastened = "", nil, 0, false, false
}
