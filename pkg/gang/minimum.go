package gang

import "time"

// minimum is how many members have to be placed together.
func (s *state) minimum() int {
	if s.podGroup == nil {
		return 1
	}
	return max(1, int(s.podGroup.MinMember)-s.brought)
}

// owed is how many members a group that has started is to have.
func (s *state) owed() int {
	if s.met > 0 {
		return min(s.met, s.minimum())
	}
	return s.minimum()
}

// lacking is how many members a group that has started has too few.
func (s *state) lacking() int {
	if !s.started {
		return 0
	}
	return max(0, s.owed()-s.count((*member).present))
}

// isReplaced says whether members wait that take the places of some that the group lacks.
func (s *state) isReplaced() bool { return len(s.claimants) > 0 && s.lacking() > 0 }

// spares says whether enough members are reserved for the group to start without one.
func (s *state) spares(m *member) bool {
	return s.permitted && s.count(func(o *member) bool { return o != m && o.reserved() }) >= s.minimum()
}

// asking counts the members that are asked for together.
func (s *state) asking(now time.Time) int {
	if s.started {
		return s.count(func(m *member) bool { return m.late(now) })
	}
	return s.count((*member).waits)
}

// whole says that Placed has told of the group, and that it has had enough members since.
func (s *state) whole() bool {
	return s.told > 0 && s.count((*member).onNode) >= s.owed()
}

// replaces says whether a member takes the place of one that its started group lacks.
func (m *member) replaces() bool { return m.place != nil && m.group.lacking() > 0 }
