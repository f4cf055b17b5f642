package gang

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Turns says which groups have waited for room for so long that others may not pass them, and which
// of those leave their turn to the next.
type Turns struct{ *core }

// A Head is a group that has waited for room for so long that those after it may
// not pass it any more.
type Head struct {
	Key types.NamespacedName
	// Since is the first of its refusals in a row that room could cure.
	Since time.Time
	// Rank is the group's place among those that wait for room. Rank.Created is when the group, with the
	// pods that it needs, could first be asked for.
	Rank Rank
}

// head describes a group that waits for room, and returns false if no member of
// it could be placed.
func (s *groupState) head() (Head, bool) {
	m := s.members[s.chooseRepresentative()]
	if m == nil {
		return Head{}, false
	}
	h := Head{Key: s.key, Since: s.roomSince, Rank: m.rank()}
	// It has not started, whatever the place of a former incarnation's members was.
	h.Rank.Urgent, h.Rank.Created = false, s.eligibleSince(m)
	return h, true
}

// Starving lists the groups that have waited for room for as long as after, or for
// longer: of each namespace and priority the first in the queue's order, in that order. A
// group that lacks members, was refused something else last or yields is none of them.
func (g Turns) Starving(now time.Time, after time.Duration) []Head {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := map[Turn]Head{}
	for key, s := range g.waitingForRoom {
		if s.roomSince.IsZero() {
			delete(g.waitingForRoom, key)
			g.updateYield(s)
			continue
		}
		if !s.isStarving(now, after) {
			continue
		}
		h, ok := s.head()
		at := TurnOf(key, h.Rank)
		if old, there := first[at]; ok && (!there || h.Rank.Less(old.Rank)) {
			first[at] = h
		}
	}
	heads := make([]Head, 0, len(first))
	for _, h := range first {
		heads = append(heads, h)
	}
	slices.SortFunc(heads, byRank)
	return heads
}

// HeadsAmong describes those of some groups that have waited for room for as long as after, or for
// longer, and that Overdue may list, in the queue's order: however many others wait, it looks at no
// more than these.
func (g Turns) HeadsAmong(keys []types.NamespacedName, now time.Time, after time.Duration) []Head {
	g.mu.Lock()
	defer g.mu.Unlock()
	heads := make([]Head, 0, len(keys))
	for _, key := range keys {
		if s := g.waitingForRoom[key]; s != nil && s.isStarving(now, after) {
			if h, ok := s.head(); ok {
				heads = append(heads, h)
			}
		}
	}
	slices.SortFunc(heads, byRank)
	return heads
}

// IsHead says whether a group that is refused for want of room now is one that Overdue lists
// from then on, if it does not yield.
func (g Turns) IsHead(key types.NamespacedName, now time.Time, after time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil || s.started || now.Sub(s.roomSinceOr(now)) < after {
		return false
	}
	own, ok := s.head()
	if !ok {
		return false
	}
	for _, o := range g.waitingForRoom {
		if o == s || o.key.Namespace != key.Namespace || !o.isStarving(now, after) {
			continue
		}
		if h, ok := o.head(); ok && h.Rank.Priority == own.Rank.Priority && h.Rank.Less(own.Rank) {
			return false
		}
	}
	return true
}

// RestoreWaitingSince takes note of since when a group has waited for room by what its PodGroup
// says; zero is not at all. It counts if this scheduler has not yet asked for the
// group itself. What the PodGroup says after that is of this scheduler, which knows better.
func (g Turns) RestoreWaitingSince(key types.NamespacedName, since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && (!s.refusedHere || since.IsZero()) {
		s.restoredSince = since
	}
}

// isStarving says whether a group that waits for room has done so for that long, and does not yield.
func (s *groupState) isStarving(now time.Time, after time.Duration) bool {
	return !s.roomSince.IsZero() && now.Sub(s.roomSince) >= after && !s.waitsForOther && s.yieldReason == ""
}

func byRank(a, b Head) int {
	if a.Rank.Less(b.Rank) {
		return -1
	}
	return 1
}
