package gang

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// refuse takes note of a refusal of a member, or with it of its group.
func (g *core) refuse(m *member, r Refusal, now time.Time) *refusal {
	// It is asked anew before it comes into the queue again.
	m.letPass = false
	if r.After > 0 {
		g.toldToWait(m.group.key.Namespace)
	}
	if s := m.group; !s.started {
		g.wait(s, r, now)
		return s.refuse(r, m.rank(), now)
	}
	if m.replaces() {
		// It goes before all others, so it is not to come later than they.
		m.refused = 0
	}
	m.no = &r
	return m.refuse(r, m.rank(), now)
}

// turnDown refuses a member, or with it its group, what it was given.
func (g *core) turnDown(m *member, because, message string, now time.Time) {
	g.refuse(m, Refusal{Reason: because, Message: message, Until: Cluster(), Backoff: true, Found: because == reason.NodeRefused || because == reason.NotReserved}, now)
	g.out.refused(m.pod, because, message)
}

// wait takes note of what a group that has not started was refused: its time runs
// as long as room could cure it. A refusal that asking again may end says nothing of
// that, such as of a node whose room was given back a moment ago, which the scheduler
// itself has not yet heard of: a stream of small groups brings those along.
func (g *core) wait(s *state, r Refusal, now time.Time) {
	s.answered = true
	fresh := s.since.IsZero() && (s.known || s.before.IsZero())
	if r.lacks() && (fresh || r.Cure == CureOther && !r.Backoff) {
		// It is in turn when what it lacks is there.
		s.lacked = true
	}
	switch {
	case r.Cure == CureRoom:
		s.since = s.waitsFrom(now)
		g.wanting[s.key] = s
	case r.Cure == CureOther && !r.Backoff:
		s.since = time.Time{}
		s.stayInTurn()
	case r.Cure == CureNodes, r.Cure == CureOther && !r.Found:
		s.astray = true
		return
	default:
		return
	}
	s.known, s.astray = true, false
}

// waitsFrom is since when a group waits that is refused for want of room now.
func (s *waiting) waitsFrom(now time.Time) time.Time {
	switch {
	case !s.since.IsZero():
		return s.since
	case !s.known && !s.before.IsZero():
		return s.before
	}
	return now
}
