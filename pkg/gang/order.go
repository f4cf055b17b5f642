package gang

import "time"

// creation is the place of the group's incarnation among groups of its priority. It is frozen when
// it is first asked for, with a member that no scheduling gate keeps.
//
// It is the creation of the PodGroup, but not before the oldest of the pods that wait, nor before
// any pod that had a node in a former incarnation. Otherwise whoever keeps old PodGroups could have
// new pods pass a group that waits, again and again.
func (s *groupState) creation(m *member) time.Time {
	if !s.created.IsZero() {
		return s.created
	}
	oldest := m.waitingSince()
	for _, o := range s.members {
		if c := o.waitingSince(); o.isWaiting() && c.Before(oldest) {
			oldest = c
		}
	}
	created := later(oldest, s.youngest)
	if s.podGroup != nil {
		created = later(created, s.podGroup.Created)
	}
	if !m.isGated() {
		s.created = created
	}
	return created
}

// eligibleSince is the place of a group, for which a member asks, among those that wait for room: its
// creation, or if that was later the creation of the youngest pod that it needs, or when it no longer
// lacked something that is not room. Otherwise whoever keeps groups that lack something could complete
// one after the other, and have each pass a group that waits.
func (s *groupState) eligibleSince(m *member) time.Time {
	if s.neededBy != m.pod.UID {
		s.neededBy, s.needed = m.pod.UID, s.youngestNeeded(m)
	}
	return later(later(s.creation(m), s.completedAt), s.needed)
}

// youngestNeeded is the creation of the youngest of the members that a group needs to start, by which
// one asks: the oldest that wait.
func (s *groupState) youngestNeeded(m *member) time.Time {
	from, n := m.waitingSince(), s.minimum()
	for i, o := range s.ordered(func(o *member) bool { return o.isWaiting() && o.priority() >= m.priority() }) {
		if i >= n {
			break
		}
		from = later(from, o.waitingSince())
	}
	return from
}

func (m *member) rank() Rank {
	r, s := rankOf(m.pod), m.group
	r.Key, r.Urgent, r.Created = s.key, m.urgent, m.waitingSince()
	created := m.created
	if created.IsZero() {
		created = s.creation(m)
	}
	if !m.extra {
		r.Created = created
	}
	return r.notBefore(created)
}
