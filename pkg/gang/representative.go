package gang

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// chooseRepresentative returns the member whose cycle places all members of a group
// that has not started. It stays the same while it waits, so that the group is in the
// queue only once. It is chosen anew when members that wait have different priorities.
//
// The representative is the oldest member of the group's priority. To get this priority, take
// as many members as the minimum, the highest priorities first: the lowest among them counts.
// So one pod of a high priority does not lift all others above the groups in between.
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

// chooseLateRepresentative returns the member whose cycle places all
// late members of a started group. It stays the same until it has an
// assignment or is refused. A replacement goes before any other member.
func (s *groupState) chooseLateRepresentative(now time.Time) types.UID {
	m := s.members[s.representative]
	if m != nil && !m.isPlaceable(now) {
		m = nil
	}
	if m == nil || m.position == nil {
		m = s.nextReplacement(m, now)
	}
	if m == nil {
		m = s.first(func(m *member) bool { return m.isPlaceable(now) })
	}
	s.representative = ""
	if m != nil {
		s.representative = m.pod.UID
	}
	return s.representative
}

// nextReplacement returns the oldest late member that
// waits for a position, or the given one if there is none.
func (s *groupPositions) nextReplacement(or *member, now time.Time) *member {
	var first *member
	for _, m := range s.replacements {
		if m.isPlaceable(now) && (first == nil || older(m, first) < 0) {
			first = m
		}
	}
	if first == nil {
		return or
	}
	return first
}
