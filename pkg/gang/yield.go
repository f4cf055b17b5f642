package gang

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Yield has a group leave its turn to the next in order, since no nodes can be reserved for it:
// something that does not end is in its way on some nodes. Without a reason it does not any more.
func (g Turns) Yield(key types.NamespacedName, why string, way *NodeFilter, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return
	}
	if s.soon {
		s.pause = min(max(2*s.pause, yieldPause), yieldLook)
	} else {
		s.pause = yieldPause
	}
	s.yields, s.way, s.looked, s.lookAt = why, way, now, now.Add(yieldLook)
	s.retry, s.soon = false, false
	g.yield(s)
}

// Yields says why a group leaves its turn to the next; nothing if it does not, or if that may
// have changed: nodes have, what stood in its way has gone, or a while has passed.
func (g Turns) Yields(key types.NamespacedName, now time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && !s.retry && now.Before(s.lookAt) {
		return s.yields
	}
	return ""
}

const (
	// yieldLook is the time after which a group that yields finds out again whether nodes can be
	// reserved for it.
	yieldLook = time.Minute
	// yieldPause is the shortest time between two such looks. It doubles, up to yieldLook, each time
	// that something which came or went had it look before yieldLook was over: everybody can make
	// pods that come and go, and the group's namespace pays for the looks.
	yieldPause = 5 * time.Second
)

// OutOfTheWay takes note that a pod is gone which would not have ended. The groups that yield and
// that it may have stood in the way of are to find out whether nodes can be reserved for them by
// now: it was there when they last did, on a node where something was in their way.
func (g Turns) OutOfTheWay(gone *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.yielders {
		if !s.looksSoon() && s.way.Has(gone.Spec.NodeName) && !gone.CreationTimestamp.After(s.looked) {
			s.lookSoon()
		}
	}
}

// Retry lists the groups that yield and are to find out whether nodes can be reserved for them,
// each once: nodes have changed, what stood in the way has gone, or a while has passed.
func (g Turns) Retry(now time.Time) []types.NamespacedName {
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []types.NamespacedName
	for _, s := range g.yielders {
		if !now.Before(s.lookAt) {
			s.retry, s.lookAt = true, now.Add(yieldLook)
			keys = append(keys, s.key)
		}
	}
	return keys
}

// reconsider has the groups that yield find that out soon.
func (g *core) reconsider() {
	for _, s := range g.yielders {
		s.lookSoon()
	}
}

// lookSoon has a group that yields look as soon as it may, and looksSoon says that it does.
func (s *yielding) lookSoon() {
	if !s.looksSoon() {
		s.soon, s.lookAt = true, s.looked.Add(s.pause)
	}
}

func (s *yielding) looksSoon() bool { return s.retry || s.soon }

// stayInTurn forgets that a group has left its turn: what it waits for is another thing now. It may
// begin anew with the shortest pause between two looks, for it has to wait as a new group does
// before it looks again, and pays for each.
func (s *yielding) stayInTurn() {
	s.yields, s.way, s.pause, s.retry, s.soon = "", nil, 0, false, false
}
