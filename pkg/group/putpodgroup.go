package group

import "k8s.io/apimachinery/pkg/types"

// PutPodGroup takes note of a group's API object. A group that has seats and has
// not started goes by the new minimum at once.
func (g *Groups) PutPodGroup(key types.NamespacedName, pg PodGroup) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.group(key)
	if s.podGroup == nil || *s.podGroup != pg {
		// What was refused may be another request now.
		s.forgive()
	}
	ordered := s.podGroup == nil || s.podGroup.Policy != pg.Policy
	if s.podGroup == nil || s.podGroup.UID != pg.UID {
		// Nothing was told on this object yet.
		s.told = 0
	}
	s.podGroup, s.named = &pg, true
	var e Effects
	if s.heed() || ordered {
		// Whether their nodes are the group's alone may be another matter now.
		e.Rebook = s.onNodes()
	}
	e.add(g.reseat(s))
	g.settle(s)
	return e
}

// onNodes lists the members that hold nodes.
func (s *state) onNodes() []types.UID {
	var uids []types.UID
	for _, m := range s.ordered((*member).holds) {
		uids = append(uids, m.pod.UID)
	}
	return uids
}

// reseat goes by a minimum that may have changed since the group was matched.
func (g *Groups) reseat(s *state) Effects {
	// The seats of members on their way out are not the next ones' either.
	seated := s.count(func(m *member) bool { return m.seat != nil && m.pod.DeletionTimestamp == nil })
	if s.started || seated == 0 {
		return Effects{}
	}
	s.need = s.minimum()
	if seated < s.need {
		return g.unseatAll(s, "minMember of the PodGroup was raised")
	}
	s.permitted = s.count((*member).reserved) >= s.need
	return Effects{}
}

// minimum is how many members have to be placed together.
func (s *state) minimum() int {
	if s.podGroup == nil {
		return 1
	}
	return max(1, int(s.podGroup.MinMember))
}

// DropPodGroup forgets a group's API object. Members that hold nodes keep them;
// a gang that has not started may not start without it.
func (g *Groups) DropPodGroup(key types.NamespacedName) Effects {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return Effects{}
	}
	ordered := s.podGroup != nil && s.podGroup.Policy != ""
	s.podGroup = nil
	var e Effects
	if s.heed() || ordered {
		e.Rebook = s.onNodes()
	}
	if s.gang && !s.started {
		e.add(g.unseatAll(s, "the PodGroup was deleted"))
	}
	g.settle(s)
	return e
}
