package gang

import "k8s.io/apimachinery/pkg/types"

// PutPodGroup takes note of a group's API object. A group that has seats and has
// not started goes by the new minimum at once.
func (g Watches) PutPodGroup(key types.NamespacedName, pg PodGroup) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.group(key)
	was := pg
	recorded := ExclusivityUnknown
	if s.podGroup != nil {
		was, recorded = *s.podGroup, s.podGroup.Exclusivity
		was.Exclusivity, was.ExclusivitySince, was.Placed = pg.Exclusivity, pg.ExclusivitySince, pg.Placed // the scheduler's own words
	}
	if s.podGroup == nil || was != pg {
		// What was refused may be another request now.
		s.requestChanged()
	}
	if s.podGroup == nil || s.podGroup.UID != pg.UID {
		// Nothing was told on this object yet.
		s.reportedPlaced = 0
	}
	s.podGroup, s.inPodGroup = &pg, true
	g.applyMinimum(s)
	g.recompute(s)
	if s.resetExclusivity(recorded) {
		g.settleExclusivity(s)
	}
	g.out.activate(key)
	return g.output()
}

// applyMinimum goes by a minimum that may have changed since the group was matched.
func (g Watches) applyMinimum(s *groupState) {
	// The seats of members on their way out are not the next ones' either.
	seated := s.count(func(m *member) bool { return m.assignment != nil && m.pod.DeletionTimestamp == nil })
	if s.started || seated == 0 {
		return
	}
	s.minReserved = s.minimum()
	if seated < s.minReserved {
		g.revokeAll(s, "minMember of the PodGroup was raised")
		return
	}
	s.permitted = s.count((*member).isReserved) >= s.minReserved
}

// DropPodGroup forgets a group's API object. Members that hold nodes keep them;
// a gang that has not started may not start without it.
func (g Watches) DropPodGroup(key types.NamespacedName) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out.forget(key)
	if s := g.groups[key]; s != nil {
		s.podGroup = nil
		if s.needsPodGroup && !s.started {
			g.revokeAll(s, "the PodGroup was deleted")
		}
		g.recompute(s)
		g.out.activate(key)
	}
	return g.output()
}
