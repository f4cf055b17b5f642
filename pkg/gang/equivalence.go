package gang

import (
	"container/heap"
	"container/list"
	"time"
)

const (
	// scoutTimeout is how long a class waits for the result of its scout's retry. Another
	// group is the scout then.
	scoutTimeout = time.Second
	// maxFollow is about how long a group follows scouts that are refused every second,
	// before it makes an attempt itself.
	maxFollow = 5 * time.Minute
)

// An equivalenceClass holds groups that were refused and have the same Refusal.Equivalence: while one of
// them finds no nodes, the others find none either. So after an event only one of them retries: the
// scout. The others follow it:
//
//   - While the scout is refused, they stay refused, without an attempt.
//   - When the scout is placed, or leaves the class for another reason, the next group is the
//     scout. It retries too, because it may have missed an event.
//
// The scout is the first group by rank when it is chosen, so that equal groups start in the order of the
// queue. It is chosen anew after each refusal in the class, except while a scout retries.
//
// A few groups retry after each refusal of the scout, those with the oldest attempts. That bounds the age
// of their messages. It also bounds what happens if two groups are not equivalent after all. For
// example, the scout may have to leave nodes free that are reserved for a third group, and another
// group of the class need not, because it has had all its pods for longer.
type equivalenceClass struct {
	key    string
	scout  *groupState
	groups rankHeap
	// byAttempt lists the groups by their last attempts, the oldest first.
	byAttempt list.List
}

// A classMembership is the part of a group in its equivalence class.
type classMembership struct {
	// class is nil if the group is in no class.
	class *equivalenceClass
	// classIndex is the index in the heap of the class. attempt is the place in its byAttempt.
	classIndex int
	attempt    *list.Element
	// refusedRank is the rank of the pod whose attempt was refused.
	refusedRank Rank
	// scoutingSince is when the refusal of a group in a class has ended, so that the group
	// retries. It is zero except until the result is known.
	scoutingSince time.Time
}

// isRetrying reports whether the group's refusal has ended, or will by itself.
func (s *groupState) isRetrying() bool { return s.refusal == nil || s.refusal.helped }

// isFollower reports whether no event helps the group, because another group retries on behalf of it.
func (s *groupState) isFollower() bool {
	return s.class != nil && s.class.scout != s && !s.isRetrying()
}

// endRefusal ends a refusal of the group or of one of its members, so that it may retry.
func (s *groupState) endRefusal(b *refusalState, now time.Time) {
	b.refusal = nil
	if b == &s.refusalState && s.class != nil {
		s.scoutingSince = now
	}
}

// endScouting takes groups out of their classes that have not come to their retry within scoutTimeout.
func (g *core) endScouting(now time.Time) {
	for _, s := range g.retries.due(now) {
		if !s.scoutingSince.IsZero() && !now.Before(s.scoutingSince.Add(scoutTimeout)) {
			s.scoutingSince = time.Time{}
			g.updateRetry(s)
		}
	}
}

// belongsToClass reports whether the group is still in the same state as the rest of its class.
func (g *core) belongsToClass(s *groupState) bool {
	switch {
	case g.unassignedGroups[s.key] != s, s.started:
		return false
	case s.refusal == nil:
		return !s.scoutingSince.IsZero()
	}
	return s.refusal.Equivalence == s.class.key
}

// joinClass puts a group that was just refused into its class, if it has one.
func (g *core) joinClass(s *groupState, now time.Time) {
	s.scoutingSince = time.Time{}
	key := s.refusal.Equivalence
	if s.class != nil && s.class.key != key {
		g.leaveClass(s)
	}
	if key == "" {
		return
	}
	c := g.classes[key]
	if c == nil {
		c = &equivalenceClass{key: key}
		g.classes[key] = c
	}
	refusedAgain := c.scout == s
	c.put(s)
	if old := c.scout; old == nil || !old.isRetrying() {
		// No event is missed: the new scout, or the old one, was refused just now.
		if c.scout = c.groups[0]; old != nil {
			g.updateRetry(old)
		}
		g.updateRetry(c.scout)
	}
	if refusedAgain {
		for _, o := range c.oldestAttempts(now) {
			o.refusal.help()
			g.updateRetry(o)
		}
	}
}

// leaveClass takes a group out of its class.
func (g *core) leaveClass(s *groupState) {
	c := s.class
	heap.Remove(&c.groups, s.classIndex)
	c.byAttempt.Remove(s.attempt)
	s.classMembership = classMembership{}
	switch {
	case len(c.groups) == 0:
		delete(g.classes, c.key)
	case c.scout == s:
		if c.scout = c.groups[0]; c.scout.refusal != nil {
			// It may have missed an event as a follower.
			c.scout.refusal.help()
		}
		g.updateRetry(c.scout)
		g.out.activate(c.scout.key)
	}
}

// put adds a group, or updates its rank and its last attempt.
func (c *equivalenceClass) put(s *groupState) {
	s.refusedRank = s.refusal.rank
	if s.class == c {
		heap.Fix(&c.groups, s.classIndex)
		c.byAttempt.MoveToBack(s.attempt)
		return
	}
	s.class, s.attempt = c, c.byAttempt.PushBack(s)
	heap.Push(&c.groups, s)
}

// oldestAttempts returns the followers that make an attempt after a refusal of the scout: those that
// have made none for maxFollow, the oldest first, and at most as many as have
// all groups make one within maxFollow if the scout retries each second.
func (c *equivalenceClass) oldestAttempts(now time.Time) []*groupState {
	most := (len(c.groups)*int(maxRetryPause) + int(maxFollow) - 1) / int(maxFollow)
	var oldest []*groupState
	for e := c.byAttempt.Front(); e != nil && len(oldest) < most; e = e.Next() {
		s := e.Value.(*groupState)
		if now.Sub(s.lastRefusedAttempt) < maxFollow {
			break
		}
		if s.isFollower() {
			oldest = append(oldest, s)
		}
	}
	return oldest
}

// A rankHeap is a heap of the groups of a class. The first by rank is the first.
type rankHeap []*groupState

// Len, Less and Swap are for package heap.
func (h rankHeap) Len() int { return len(h) }

func (h rankHeap) Less(i, j int) bool { return h[i].refusedRank.Less(h[j].refusedRank) }

func (h rankHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].classIndex, h[j].classIndex = i, j
}

// Push is for package heap. To add a group, call put.
func (h *rankHeap) Push(s any) {
	of := s.(*groupState)
	of.classIndex = len(*h)
	*h = append(*h, of)
}

// Pop is for package heap. To remove a group, call leaveClass.
func (h *rankHeap) Pop() any {
	last := len(*h) - 1
	of := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	return of
}
