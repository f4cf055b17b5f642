package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Yield makes a group leave its turn to the next group, because no nodes can
// be reserved for it. The argument why is the reason as users read it. blockedNodes has the nodes
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
	s.yieldReason, s.blockedNodes, s.lastReserveAttempt, s.nextReserveAttempt = why, blockedNodes, now, now.Add(maxYieldPause)
	s.reserveAttemptDue, s.hastened = false, false
	g.updateYield(s)
}

// WhyYields returns why a group leaves its turn to the next. It returns
// nothing if the group does not yield, or if that may have changed:
// nodes have changed, a blocker has gone, or maxYieldPause has passed.
func (g Turns) WhyYields(key types.NamespacedName, now time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && !s.reserveAttemptDue && now.Before(s.nextReserveAttempt) {
		return s.yieldReason
	}
	return ""
}

const (
	// maxYieldPause is the time after which a group that
	// yields makes the next attempt to have nodes reserved.
	maxYieldPause = time.Minute
	// minYieldPause is the shortest pause between two such attempts. The
	// pause doubles, up to maxYieldPause, with each attempt that a change
	// has hastened. Otherwise anyone could cause many attempts with pods that
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
		if !s.isReserveAttemptNear() && s.blockedNodes.Has(gone.Spec.NodeName) && !gone.CreationTimestamp.After(s.lastReserveAttempt) {
			s.hastenReserveAttempt()
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
		if !now.Before(s.nextReserveAttempt) {
			s.reserveAttemptDue, s.nextReserveAttempt = true, now.Add(maxYieldPause)
			keys = append(keys, s.key)
		}
	}
	return keys
}

// hastenYielders hastens the next attempt of all groups that yield.
func (g *core) hastenYielders() {
	for _, s := range g.yielders {
		s.hastenReserveAttempt()
	}
}

// hastenReserveAttempt brings the next attempt of a group that yields forward to the end of its pause.
func (s *yieldState) hastenReserveAttempt() {
	if !s.isReserveAttemptNear() {
		s.hastened, s.nextReserveAttempt = true, s.lastReserveAttempt.Add(s.pause)
	}
}

// isReserveAttemptNear reports whether the next attempt was brought forward or is due.
func (s *yieldState) isReserveAttemptNear() bool { return s.reserveAttemptDue || s.hastened }

// clearYield ends the yielding, because the group has started or waits for something
// else now. The next pause is the shortest again. A user gains nothing by that: before
// its next attempt the group has to wait for room from the beginning, as a new group
// does, and the group's namespace is charged for each attempt.
func (s *yieldState) clearYield() {
	s.yieldReason, s.blockedNodes, s.pause, s.reserveAttemptDue, s.hastened = "", nil, 0, false, false
}
