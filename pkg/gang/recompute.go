package gang

import "time"

// recompute brings up to date what follows from a group's members and its PodGroup:
// whether the group has started, its positions, its reports, and its part in the
// indexes. It ends the incarnation if no member is present, and drops an empty
// group. It has to be called after each change of the members or the PodGroup.
func (g *core) recompute(s *groupState) {
	s.gatheringKnown, s.topology, s.youngestNeededFor, s.siblingLooks = false, nil, "", nil
	onNode, refused, present := s.number(placedMembers), s.number(refusedLateMembers), s.number(presentMembers)
	waiting, unconfirmed := s.number(unassignedMembers) > 0, s.number(tentativeMembers) > 0
	kept := present == 0 && awaitsStage(s)
	ended := s.started && present == 0 && !kept
	if ended {
		g.out.transition(Transition{Type: Ended, Key: s.key})
		s.permitted, s.started, s.startReported, s.mayBeBound, s.completeSince = false, false, false, false, time.Time{}
		s.reportedPlaced, s.reportedRefused, s.peakMinimum = 0, 0, 0
		s.pastIncarnations++
		s.clearRefusals()
		g.endSeats(s, "no pod of the group is left")
	}
	if present == 0 && !kept {
		s.exclusivity, s.matchedHere, s.reportedLateAnnotation = ExclusivityUnknown, false, false
	}
	if present == 0 && (ended || !waiting) {
		s.frozenOrderTime = time.Time{}
	}
	if onNode > 0 {
		// The group may have started before this process did, or by a bind of another scheduler.
		s.started, s.mayBeBound = true, true
	}
	if s.started && s.peakMinimum == 0 && !s.matchedHere && s.podGroup != nil {
		// Another process matched the group. The group has reached at most what
		// its status reported as placed, even if the minimum was raised since.
		s.peakMinimum = min(s.podGroup.Placed, s.minimum())
	}
	if s.started && present >= s.minimum() && (s.podGroup != nil || !s.needsPodGroup()) {
		// The minimum of a group that waits for its PodGroup is not known.
		s.peakMinimum = max(s.peakMinimum, s.minimum())
	}
	if !s.started && len(s.priorities) > 1 {
		// Another member may have the group's priority now.
		s.representative = ""
	}
	g.updatePositions(s)
	g.updateSeats(s)
	s.reportedPlaced = min(s.reportedPlaced, onNode)
	if news := onNode > s.reportedPlaced || refused != s.reportedRefused; s.podGroup != nil && s.number(unboundMembers) == 0 && onNode > 0 && news && onNode >= s.required() {
		s.reportedPlaced, s.reportedRefused = max(s.reportedPlaced, onNode), refused
		g.out.reportPlaced(s.key)
	}
	if s.reportedPlaced > 0 && s.podGroup != nil {
		if late := g.lateAnnotation(s) != ""; s.reportedLateAnnotation != late {
			s.reportedLateAnnotation = late
			g.out.reportPlaced(s.key)
		}
	}
	g.reportExpectation(s)
	if !s.roomSince.IsZero() || !s.completeSince.IsZero() {
		// A group with assignments keeps its times, even if a pod that joins it lacks something.
		if why, _ := g.whyGathering(s); s.started || why != "" && !unconfirmed {
			s.roomSince, s.completeSince = time.Time{}, time.Time{}
			s.notForRoom, s.hasLacked = false, s.hasLacked || why != ""
			s.clearYield()
		}
	}
	// A native PodGroup without members may be one of another scheduler, and nothing is reported on it.
	missing := s.podGroup != nil && !s.isNative && (len(s.members) == 0 && !s.podGroup.Ended || isAtRest(s))
	setIndexed(g.unassignedGroups, s, waiting || missing)
	setIndexed(g.refusedGroups, s, (waiting || missing) && (s.number(refusedMembers) > 0 || s.refusal != nil))
	setIndexed(g.replacementGroups, s, waiting && len(s.replacements) > 0)
	setIndexed(g.unconfirmedGroups, s, unconfirmed)
	g.updateRetry(s)
	g.updateYield(s)
	if len(s.members) == 0 && s.podGroup == nil {
		delete(g.groups, s.key)
		delete(g.waitingForRoom, s.key)
		delete(g.seatedGroups, s.key)
		g.updateYield(s)
	}
}

// reportExpectation has a group that was reported as placed reported again if its expectation has
// changed. While a pod is being bound it waits: the report of that pod says the same.
func (g *core) reportExpectation(s *groupState) {
	if s.reportedPlaced == 0 || s.podGroup == nil || s.number(unboundMembers) > 0 {
		return
	}
	if e := g.expectation(s); e != s.reportedExpectation {
		s.reportedExpectation = e
		g.out.reportPlaced(s.key)
	}
}
