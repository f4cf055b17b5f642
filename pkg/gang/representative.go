package gang

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// choose returns the member that asks for all: it stays the same while it waits, so that one group
// stands in the queue once, and while who else waits gives the group no other priority. That is the
// lowest among as many members as the group needs, those of the highest: else one pod of a high
// priority led all others past who is in between. Of those that have it the oldest asks.
func (s *state) choose() types.UID {
	if m := s.members[s.representative]; m == nil || !m.waits() {
		s.representative = ""
		ms := s.ordered((*member).waits)
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

// chooseLate returns the member of a started group that asks for all that are
// late, first one that takes the place of another: it stays the same until it has a seat
// or is refused one.
func (s *state) chooseLate(now time.Time) types.UID {
	m := s.members[s.representative]
	if m != nil && !m.late(now) {
		m = nil
	}
	if m == nil || m.place == nil {
		m = s.claimant(m, now)
	}
	if m == nil {
		m = s.first(func(m *member) bool { return m.late(now) })
	}
	s.representative = ""
	if m != nil {
		s.representative = m.pod.UID
	}
	return s.representative
}

// claimant returns the oldest late member that waits for a place, or else the given one.
func (s *succession) claimant(or *member, now time.Time) *member {
	var first *member
	for _, m := range s.claimants {
		if m.late(now) && (first == nil || older(m, first) < 0) {
			first = m
		}
	}
	if first == nil {
		return or
	}
	return first
}
