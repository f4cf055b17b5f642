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
	// maxFollow is how old the last attempt of a group is at least before the group makes another one
	// although its scout was refused.
	maxFollow = 5 * time.Minute
	// turnEvery is the time between two attempts of followers.
	turnEvery = time.Second
)

// An equivalenceClass holds groups that were refused and have the same Refusal.Equivalence: while one of
// them finds no nodes, the others find none either. So after an event only one of them retries: the
// scout. The others follow it:
//
//   - While the scout is refused, they stay refused, without an attempt.
//   - When the scout is placed, or leaves the class for another reason, the next group is the
//     scout. It retries too, because it may have missed an event.
//
// The scout is the first group in the order of reservations when it is chosen (see StarvingGroup.Rank): it
// has to leave free no more nodes than any group after it. That is the order of the queue too, except that
// a group that became complete later than a younger one is behind it. The scout is chosen anew
// after each refusal in the class, except while it retries.
//
// After a refusal of the scout the others make attempts too, in turns, so that each makes one within twice
// maxFollow. That bounds the age of their messages. It also bounds what happens if two groups are not
// equivalent after all.
type equivalenceClass struct {
	key    string
	scout  *groupState
	groups rankHeap
	// byAttempt lists the groups by their last attempts, the oldest first.
	byAttempt list.List
	// scoutedAt is when a scout was last refused again. Groups with older attempts are to make one.
	scoutedAt time.Time
	// turnAt is when the next of them do. It is zero if there are none.
	turnAt time.Time
}

// A classMembership is the part of a group in its equivalence class.
type classMembership struct {
	// class is nil if the group is in no class.
	class *equivalenceClass
	// classIndex is the index in the heap of the class. attempt is the place in its byAttempt.
	classIndex int
	attempt    *list.Element
	// reservationRank is the place in the order of reservations at the last refusal.
	reservationRank Rank
	// scoutingSince is when the refusal of a group in a class has ended, so that the group
	// retries. It is zero except until the result is known.
	scoutingSince time.Time
}

// isRetrying reports whether the refusal has ended, or will by itself.
func (b *refusalState) isRetrying() bool { return b.refusal == nil || b.refusal.helped }

// hasFollower reports whether no event helps a group, because the scout retries on behalf of it. A
// group without a class is no follower.
func (c *equivalenceClass) hasFollower(s *groupState) bool {
	return c != nil && c.scout != s && !s.isRetrying()
}

// endRefusal ends a refusal of a group or of one of its members, so that it may retry.
func endRefusal(s *groupState, b *refusalState, now time.Time) {
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
	if refusedAgain {
		if c.scoutedAt = now; c.turnAt.IsZero() {
			c.setTurn(now)
		}
	}
	if old := c.scout; old == nil || !old.isRetrying() {
		// No event is missed: the new scout, or the old one, was refused just now.
		if c.scout = c.groups[0]; old != nil {
			g.updateRetry(old)
		}
		g.updateRetry(c.scout)
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
	s.reservationRank = s.refusal.rank
	if h, ok := s.starvingGroup(); ok {
		s.reservationRank = h.Rank
	}
	if s.class == c {
		heap.Fix(&c.groups, s.classIndex)
		c.byAttempt.MoveToBack(s.attempt)
		return
	}
	s.class, s.attempt = c, c.byAttempt.PushBack(s)
	heap.Push(&c.groups, s)
}

// setTurn sets when the next followers make an attempt.
func (c *equivalenceClass) setTurn(now time.Time) {
	c.turnAt = time.Time{}
	if oldest := c.byAttempt.Front().Value.(*groupState); oldest.lastRefusedAttempt.Before(c.scoutedAt) {
		c.turnAt = later(now.Add(turnEvery), oldest.lastRefusedAttempt.Add(maxFollow))
	}
}

// takeTurns lets followers retry whose turn has come: as many of each class as have all of them
// make an attempt within maxFollow.
func (g *core) takeTurns(now time.Time) {
	for _, s := range g.retries.due(now) {
		c := s.class
		if c == nil || c.scout != s || c.turnAt.IsZero() || now.Before(c.turnAt) {
			continue
		}
		most := (len(c.groups)*int(turnEvery) + int(maxFollow) - 1) / int(maxFollow)
		for e := c.byAttempt.Front(); e != nil && most > 0; e = e.Next() {
			o := e.Value.(*groupState)
			if now.Sub(o.lastRefusedAttempt) < maxFollow || !o.lastRefusedAttempt.Before(c.scoutedAt) {
				break
			}
			if c.hasFollower(o) {
				o.refusal.help()
				g.updateRetry(o)
				most--
			}
		}
		c.turnAt = now.Add(turnEvery)
		if most > 0 {
			c.setTurn(now)
		}
		g.updateRetry(s)
	}
}

// A rankHeap is a heap of the groups of a class. The first by rank is the first.
type rankHeap []*groupState

// Len, Less and Swap are for package heap.
func (h rankHeap) Len() int { return len(h) }

func (h rankHeap) Less(i, j int) bool { return h[i].reservationRank.Less(h[j].reservationRank) }

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
