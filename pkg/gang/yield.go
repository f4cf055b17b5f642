package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Yield has a group leave its turn to the next in order, since no nodes can be reserved for it:
// something that does not end is in its way on some nodes. Without a reason it does not any more.
func (g Turns) Yield(key types.NamespacedName, why string, way *NodeBloomFilter, now time.Time) {
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
	s.yieldReason, s.blockedNodes, s.lastAttempt, s.nextAttempt = why, way, now, now.Add(maxYieldPause)
	s.attemptDue, s.hastened = false, false
	g.updateYield(s)
}

// WhyYields says why a group leaves its turn to the next; nothing if it does not, or if that may
// have changed: nodes have, what stood in its way has gone, or a while has passed.
func (g Turns) WhyYields(key types.NamespacedName, now time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && !s.attemptDue && now.Before(s.nextAttempt) {
		return s.yieldReason
	}
	return ""
}

const (
	// maxYieldPause is the time after which a group that yields finds out again whether nodes can be
	// reserved for it.
	maxYieldPause = time.Minute
	// minYieldPause is the shortest time between two such looks. It doubles, up to maxYieldPause, each time
	// that something which came or went had it look before maxYieldPause was over: everybody can make
	// pods that come and go, and the group's namespace pays for the looks.
	minYieldPause = 5 * time.Second
)

// BlockerGone takes note that a pod is gone which would not have ended. The groups that yield and
// that it may have stood in the way of are to find out whether nodes can be reserved for them by
// now: it was there when they last did, on a node where something was in their way.
func (g Turns) BlockerGone(gone *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.yielders {
		if !s.isAttemptNear() && s.blockedNodes.Has(gone.Spec.NodeName) && !gone.CreationTimestamp.After(s.lastAttempt) {
			s.hastenAttempt()
		}
	}
}

// YieldersDue lists the groups that yield and are to find out whether nodes can be reserved for them,
// each once: nodes have changed, what stood in the way has gone, or a while has passed.
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

// hastenYielders has the groups that yield find that out soon.
func (g *core) hastenYielders() {
	for _, s := range g.yielders {
		s.hastenAttempt()
	}
}

// hastenAttempt has a group that yields look as soon as it may, and isAttemptNear says that it does.
func (s *yieldState) hastenAttempt() {
	if !s.isAttemptNear() {
		s.hastened, s.nextAttempt = true, s.lastAttempt.Add(s.pause)
	}
}

func (s *yieldState) isAttemptNear() bool { return s.attemptDue || s.hastened }

// clearYield forgets that a group has left its turn: what it waits for is another thing now. It may
// begin anew with the shortest pause between two looks, for it has to wait as a new group does
// before it looks again, and pays for each.
func (s *yieldState) clearYield() {
	s.yieldReason, s.blockedNodes, s.pause, s.attemptDue, s.hastened = "", nil, 0, false, false
}
