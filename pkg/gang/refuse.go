package gang

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// refuse records a refusal: of the group if it has not started, and of the member if it has.
func (g *core) refuse(m *member, r Refusal, now time.Time) *activeRefusal {
	// The other plugins decide again before the pod comes into the queue again.
	m.passedOtherPlugins = false
	s := m.group
	if r.WaitsFor != WaitsForThrottle {
		s.lastRefusedAttempt = now
	}
	active := g.remember(m, r, now)
	if r.RetryAfter > 0 {
		g.throttle(s.key.Namespace, active.retryAt)
	} else {
		g.growRetryPace(s.key.Namespace)
	}
	return active
}

// remember stores a refusal in the group or, if the group has started, in the member.
func (g *core) remember(m *member, r Refusal, now time.Time) *activeRefusal {
	s := m.group
	if !s.started {
		g.updateWaitTimes(s, r, now)
		active := s.refuse(r, m.rank(), now)
		g.joinClass(s, now)
		return active
	}
	if m.isReplacement() {
		// A replacement goes before all others, so its pause must not be longer than theirs.
		m.refusalCount = 0
	}
	m.lastRefusal = &r
	defer s.changed(m)
	return m.refuse(r, m.rank(), now)
}

// refuseWithBackoff records and reports that a member, or its group, cannot take the node that it
// was given, or cannot be placed. The refusal has Backoff, and a change of the cluster may end it.
func (g *core) refuseWithBackoff(m *member, because, message string, now time.Time) {
	g.refuse(m, Refusal{Reason: because, Message: message, RetryOn: ClusterEvents(), Backoff: true, NodesFound: because == reason.NodeRefused || because == reason.NotReserved}, now)
	g.out.reportRefusal(m.pod, because, message)
}

// updateWaitTimes updates since when a group that has not started
// waits for room. A refusal with WaitsForRoom begins the waiting time, or
// keeps it if it has begun. WaitsForOther without Backoff ends the waiting
// time. Any other refusal neither begins nor ends it.
//
// WaitsForOther with Backoff says nothing about room, because a retry may end it. For example,
// a filter may reject a node because of a pod that came to it a moment ago.
func (g *core) updateWaitTimes(s *groupState, r Refusal, now time.Time) {
	s.refusedHere = true
	hasNotWaited := s.roomSince.IsZero() && (s.roomSinceKnown || s.restoredSince.IsZero())
	if r.isAuthorFixable() && (hasNotWaited || r.WaitsFor == WaitsForOther && !r.Backoff) {
		// The author has to provide something first. The group has not waited for room before, or
		// it stops waiting for room now. The group becomes eligible only when it has what it lacks.
		s.hasLacked = true
	}
	switch {
	case r.WaitsFor == WaitsForRoom:
		s.roomSince = s.roomSinceOr(now)
		g.waitingForRoom[s.key] = s
	case r.WaitsFor == WaitsForOther && !r.Backoff:
		s.roomSince = time.Time{}
		s.clearYield()
	case r.WaitsFor == WaitsForNodes, r.WaitsFor == WaitsForOther && !r.NodesFound:
		s.notForRoom = true
		return
	default:
		return
	}
	s.roomSinceKnown, s.notForRoom = true, false
}

// roomSinceOr returns since when a group that is refused for room now
// has waited for it. It returns now if the group has not waited before.
func (s *waitTimes) roomSinceOr(now time.Time) time.Time {
	switch {
	case !s.roomSince.IsZero():
		return s.roomSince
	case !s.roomSinceKnown && !s.restoredSince.IsZero():
		return s.restoredSince
	}
	return now
}
