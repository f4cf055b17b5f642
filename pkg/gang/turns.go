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
func (s *state) head() (Head, bool) {
	m := s.members[s.choose()]
	if m == nil {
		return Head{}, false
	}
	h := Head{Key: s.key, Since: s.since, Rank: m.rank()}
	// It has not started, whatever the place of a former incarnation's members was.
	h.Rank.Incomplete, h.Rank.Created = false, s.inTurnFrom(m)
	return h, true
}

// Overdue lists the groups that have waited for room for as long as after, or for
// longer: of each namespace and priority the first in the queue's order, in that order. A
// group that lacks members, was refused something else last or yields is none of them.
func (g Turns) Overdue(now time.Time, after time.Duration) []Head {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := map[Turn]Head{}
	for key, s := range g.wanting {
		if s.since.IsZero() {
			delete(g.wanting, key)
			g.yield(s)
			continue
		}
		if !s.overdue(now, after) {
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
		if s := g.wanting[key]; s != nil && s.overdue(now, after) {
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
	if s == nil || s.started || now.Sub(s.waitsFrom(now)) < after {
		return false
	}
	own, ok := s.head()
	if !ok {
		return false
	}
	for _, o := range g.wanting {
		if o == s || o.key.Namespace != key.Namespace || !o.overdue(now, after) {
			continue
		}
		if h, ok := o.head(); ok && h.Rank.Priority == own.Rank.Priority && h.Rank.Less(own.Rank) {
			return false
		}
	}
	return true
}

// Waited takes note of since when a group has waited for room by what its PodGroup
// says; zero is not at all. It counts if this scheduler has not yet asked for the
// group itself. What the PodGroup says after that is of this scheduler, which knows better.
func (g Turns) Waited(key types.NamespacedName, since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.groups[key]; s != nil && (!s.answered || since.IsZero()) {
		s.before = since
	}
}

// overdue says whether a group that waits for room has done so for that long, and does not yield.
func (s *state) overdue(now time.Time, after time.Duration) bool {
	return !s.since.IsZero() && now.Sub(s.since) >= after && !s.astray && s.yields == ""
}

func byRank(a, b Head) int {
	if a.Rank.Less(b.Rank) {
		return -1
	}
	return 1
}
