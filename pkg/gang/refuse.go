package gang

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// refuse takes note of a refusal of a member, or with it of its group.
func (g *core) refuse(m *member, r Refusal, now time.Time) *activeRefusal {
	// It is asked anew before it comes into the queue again.
	m.passedOtherPlugins = false
	if r.RetryAfter > 0 {
		g.toldToWait(m.group.key.Namespace)
	}
	if s := m.group; !s.started {
		g.updateWaitTimes(s, r, now)
		return s.refuse(r, m.rank(), now)
	}
	if m.isReplacement() {
		// It goes before all others, so it is not to come later than they.
		m.refusalCount = 0
	}
	m.lastRefusal = &r
	return m.refuse(r, m.rank(), now)
}

// refuseWithBackoff refuses a member, or with it its group, what it was given.
func (g *core) refuseWithBackoff(m *member, because, message string, now time.Time) {
	g.refuse(m, Refusal{Reason: because, Message: message, RetryOn: ClusterEvents(), Backoff: true, NodesFound: because == reason.NodeRefused || because == reason.NotReserved}, now)
	g.out.refuse(m.pod, because, message)
}

// updateWaitTimes takes note of what a group that has not started was refused: its time runs
// as long as room could cure it. A refusal that asking again may end says nothing of
// that, such as of a node whose room was given back a moment ago, which the scheduler
// itself has not yet heard of: a stream of small groups brings those along.
func (g *core) updateWaitTimes(s *groupState, r Refusal, now time.Time) {
	s.refusedHere = true
	fresh := s.roomSince.IsZero() && (s.roomSinceKnown || s.restoredSince.IsZero())
	if r.isAuthorFixable() && (fresh || r.WaitsFor == WaitsForOther && !r.Backoff) {
		// It is in turn when what it lacks is there.
		s.wasGathering = true
	}
	switch {
	case r.WaitsFor == WaitsForRoom:
		s.roomSince = s.roomSinceOr(now)
		g.waitingForRoom[s.key] = s
	case r.WaitsFor == WaitsForOther && !r.Backoff:
		s.roomSince = time.Time{}
		s.clearYield()
	case r.WaitsFor == WaitsForNodes, r.WaitsFor == WaitsForOther && !r.NodesFound:
		s.waitsForOther = true
		return
	default:
		return
	}
	s.roomSinceKnown, s.waitsForOther = true, false
}

// roomSinceOr is since when a group waits that is refused for want of room now.
func (s *waitTimes) roomSinceOr(now time.Time) time.Time {
	switch {
	case !s.roomSince.IsZero():
		return s.roomSince
	case !s.roomSinceKnown && !s.restoredSince.IsZero():
		return s.restoredSince
	}
	return now
}
