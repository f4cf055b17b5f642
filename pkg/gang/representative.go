package gang

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// chooseRepresentative returns the member that asks for all: it stays the same while it waits, so that one group
// stands in the queue once, and while who else waits gives the group no other priority. That is the
// lowest among as many members as the group needs, those of the highest: else one pod of a high
// priority led all others past who is in between. Of those that have it the oldest asks.
func (s *groupState) chooseRepresentative() types.UID {
	if m := s.members[s.representative]; m == nil || !m.isWaiting() {
		s.representative = ""
		ms := s.ordered((*member).isWaiting)
		if len(ms) == 0 {
			return ""
		}
		priorities := make([]int32, len(ms))
		for i, m := range ms {
			priorities[i] = m.priority()
		}
		slices.Sort(priorities)
		own := priorities[max(0, len(ms)-s.minimum())]
		s.representative = ms[slices.IndexFunc(ms, func(m *member) bool { return m.priority() == own })].pod.UID
	}
	return s.representative
}

// chooseLateRepresentative returns the member of a started group that asks for all that are
// late, first one that takes the place of another: it stays the same until it has a seat
// or is refused one.
func (s *groupState) chooseLateRepresentative(now time.Time) types.UID {
	m := s.members[s.representative]
	if m != nil && !m.isLate(now) {
		m = nil
	}
	if m == nil || m.position == nil {
		m = s.nextReplacement(m, now)
	}
	if m == nil {
		m = s.first(func(m *member) bool { return m.isLate(now) })
	}
	s.representative = ""
	if m != nil {
		s.representative = m.pod.UID
	}
	return s.representative
}

// nextReplacement returns the oldest late member that waits for a place, or else the given one.
func (s *groupPositions) nextReplacement(or *member, now time.Time) *member {
	var first *member
	for _, m := range s.replacements {
		if m.isLate(now) && (first == nil || older(m, first) < 0) {
			first = m
		}
	}
	if first == nil {
		return or
	}
	return first
}
