package gang

import "time"

// orderTime returns the time that orders the group among groups of its priority. It is
// frozen for the incarnation when it is first called with a member that is not gated.
//
// It is the latest of three times: the PodGroup's creation, the time since
// when the oldest waiting pod waits, and the time since when the youngest
// pod waited that has had a node in any incarnation. Without the last two,
// new pods of old PodGroups could pass a waiting group again and again.
func (s *groupState) orderTime(m *member) time.Time {
	if !s.frozenOrderTime.IsZero() {
		return s.frozenOrderTime
	}
	oldest := m.waitingSince()
	for _, o := range s.members {
		if c := o.waitingSince(); o.isWaiting() && c.Before(oldest) {
			oldest = c
		}
	}
	created := later(oldest, s.youngestPlacedWaitingSince)
	if s.podGroup != nil {
		created = later(created, s.podGroup.Created)
	}
	if !m.isGated() {
		s.frozenOrderTime = created
	}
	return created
}

// eligibleSince returns since when the group, with m as its representative, could be placed if
// there were room. This time orders the groups that wait for room. It is the latest of three
// times: the result of orderTime, the time since when the youngest pod that the group needs waits,
// and the time since when the group lacks nothing except room. Without the last two, a user could
// keep old incomplete groups and complete one at a time, and each would pass groups that wait.
//
// The pods of a group are seldom made in one second. What comes within gatheringTime counts as made with
// the group, and so does what the group lacked until then. So groups get room in the order in which they ask.
func (s *groupState) eligibleSince(m *member) time.Time {
	if s.youngestNeededFor != m.pod.UID {
		s.youngestNeededFor, s.youngestNeeded = m.pod.UID, s.youngestNeededSince(m)
	}
	since := s.orderTime(m)
	if ready := later(s.youngestNeeded, s.completeAgainAt); ready.Sub(since) > gatheringTime {
		return ready
	}
	return since
}

// gatheringTime is for how long after its place in the order was set a group may get what it lacks and keep this place.
const gatheringTime = 10 * time.Second

// youngestNeededSince returns since when the youngest pod that the group needs
// has waited, with m as the group's representative. The group needs the
// oldest waiting pods of at least m's priority, as many as the minimum.
func (s *groupState) youngestNeededSince(m *member) time.Time {
	from, n := m.waitingSince(), s.minimum()
	for i, o := range s.ordered(func(o *member) bool { return o.isWaiting() && o.priority() >= m.priority() }) {
		if i >= n {
			break
		}
		from = later(from, o.waitingSince())
	}
	return from
}

// rank returns the member's place in the queue. It uses the values that queueEntry has frozen.
func (m *member) rank() Rank {
	r, s := rankOf(m.pod), m.group
	r.Key, r.Urgent, r.Since = s.key, m.urgent, m.waitingSince()
	created := m.orderTime
	if created.IsZero() {
		created = s.orderTime(m)
	}
	if !m.addedLate {
		r.Since = created
	}
	return r.notBefore(created)
}
