package gang

import "time"

// creation returns the time that orders the group among groups of its priority. It is
// frozen for the incarnation when it is first called with a member that is not gated.
//
// It is the latest of three times: the creation of the PodGroup, the start of the
// wait of the oldest pod that waits, and the start of the wait of the youngest pod
// that has had a node in any incarnation. Otherwise a user who keeps old PodGroups
// in stock could have new pods pass a group that waits, again and again.
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

// eligibleSince returns the time that orders the group among groups that wait for
// room, if m asks for it. It is the latest of three times: creation, the start of the
// wait of the youngest pod that the group needs, and the end of the time in which the
// group lacked something other than room. Otherwise a user who keeps groups that lack
// something could complete one after the other, and have each pass a group that waits.
func (s *groupState) eligibleSince(m *member) time.Time {
	if s.neededBy != m.pod.UID {
		s.neededBy, s.needed = m.pod.UID, s.youngestNeeded(m)
	}
	return later(later(s.creation(m), s.completedAt), s.needed)
}

// youngestNeeded returns since when the youngest pod that the group needs has waited, if m asks for
// it. The group needs the oldest waiting pods of at least m's priority, as many as the minimum.
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

// rank returns the member's position in the queue. It uses the values that queueEntry has frozen.
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
