package gang

import "k8s.io/apimachinery/pkg/types"

// PutPodGroup takes note of a group's API object. A group that has seats and has
// not started goes by the new minimum at once.
func (g Watches) PutPodGroup(key types.NamespacedName, pg PodGroup) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.group(key)
	was := pg
	recorded := WholeUnknown
	if s.podGroup != nil {
		was, recorded = *s.podGroup, s.podGroup.Whole
		was.Whole, was.WholeSince, was.Placed = pg.Whole, pg.WholeSince, pg.Placed // the scheduler's own words
	}
	if s.podGroup == nil || was != pg {
		// What was refused may be another request now.
		s.asksElse()
	}
	if s.podGroup == nil || s.podGroup.UID != pg.UID {
		// Nothing was told on this object yet.
		s.told = 0
	}
	s.podGroup, s.named = &pg, true
	g.reseat(s)
	g.settle(s)
	if s.unfence(recorded) {
		g.fence(s)
	}
	g.out.wake(key)
	return g.output()
}

// reseat goes by a minimum that may have changed since the group was matched.
func (g Watches) reseat(s *state) {
	// The seats of members on their way out are not the next ones' either.
	seated := s.count(func(m *member) bool { return m.seat != nil && m.pod.DeletionTimestamp == nil })
	if s.started || seated == 0 {
		return
	}
	s.need = s.minimum()
	if seated < s.need {
		g.unseatAll(s, "minMember of the PodGroup was raised")
		return
	}
	s.permitted = s.count((*member).reserved) >= s.need
}

// DropPodGroup forgets a group's API object. Members that hold nodes keep them;
// a gang that has not started may not start without it.
func (g Watches) DropPodGroup(key types.NamespacedName) Output {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out.forget(key)
	if s := g.groups[key]; s != nil {
		s.podGroup = nil
		if s.gang && !s.started {
			g.unseatAll(s, "the PodGroup was deleted")
		}
		g.settle(s)
		g.out.wake(key)
	}
	return g.output()
}
