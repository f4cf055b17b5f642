package gang

import "time"

// minimum returns how many members have to be placed together. Preplaced members count as placed.
func (s *groupState) minimum() int {
	if s.podGroup == nil {
		return 1
	}
	return max(1, minMemberOf(s)-s.preplaced())
}

// required returns how many members a started group has to have: the
// minimum, but no more than the largest minimum that the group has reached.
func (s *groupState) required() int {
	if s.peakMinimum > 0 {
		return min(s.peakMinimum, s.minimum())
	}
	return s.minimum()
}

// missing returns how many required members a started group does not have.
func (s *groupState) missing() int {
	if !s.started {
		return 0
	}
	return max(0, s.required()-s.number(presentMembers))
}

// hasReplacements reports whether replacements of missing members wait.
func (s *groupState) hasReplacements() bool { return len(s.replacements) > 0 && s.missing() > 0 }

// canStartWithout reports whether the group can start without a member, because enough others are reserved.
func (s *groupState) canStartWithout(m *member) bool {
	others := s.number(reservedMembers)
	if m.isReserved() {
		others--
	}
	return s.permitted && others >= s.minimum()
}

// podsToPlace returns how many members a Plan would place together.
func (s *groupState) podsToPlace(now time.Time) int {
	if s.started {
		return s.countIf(func(m *member) bool { return m.isPlaceable(now) })
	}
	return s.number(waitingMembers)
}

// isFullyPlaced reports whether the group was listed in Placed, and has enough members on nodes.
func (s *groupState) isFullyPlaced() bool {
	return s.reportedPlaced > 0 && s.number(placedMembers) >= s.required()
}

// isReplacement reports whether a member takes the position of a missing member of its group.
func (m *member) isReplacement() bool { return m.position != nil && m.group.missing() > 0 }
