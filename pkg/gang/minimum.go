package gang

import "time"

// minimum is how many members have to be placed together.
func (s *groupState) minimum() int {
	if s.podGroup == nil {
		return 1
	}
	return max(1, int(s.podGroup.MinMember)-s.preplaced)
}

// required is how many members a group that has started is to have.
func (s *groupState) required() int {
	if s.peakMinimum > 0 {
		return min(s.peakMinimum, s.minimum())
	}
	return s.minimum()
}

// missing is how many members a group that has started has too few.
func (s *groupState) missing() int {
	if !s.started {
		return 0
	}
	return max(0, s.required()-s.count((*member).isPresent))
}

// hasReplacements says whether members wait that take the places of some that the group lacks.
func (s *groupState) hasReplacements() bool { return len(s.replacements) > 0 && s.missing() > 0 }

// spares says whether enough members are reserved for the group to start without one.
func (s *groupState) spares(m *member) bool {
	return s.permitted && s.count(func(o *member) bool { return o != m && o.isReserved() }) >= s.minimum()
}

// podsToPlace counts the members that are asked for together.
func (s *groupState) podsToPlace(now time.Time) int {
	if s.started {
		return s.count(func(m *member) bool { return m.isLate(now) })
	}
	return s.count((*member).isWaiting)
}

// isPlaced says that Placed has told of the group, and that it has had enough members since.
func (s *groupState) isPlaced() bool {
	return s.reportedPlaced > 0 && s.count((*member).isPlaced) >= s.required()
}

// isReplacement says whether a member takes the place of one that its started group lacks.
func (m *member) isReplacement() bool { return m.position != nil && m.group.missing() > 0 }
