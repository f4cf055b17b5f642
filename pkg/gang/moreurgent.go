package gang

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// MoreUrgent returns the member that is to be asked for before a pod whose scheduling
// cycle begins: it takes the place of one that its started group lacks, and does not stand before the
// pod in the queue. It came into the queue before its group lacked anything, as on a
// standby while another scheduler is at work, or after the pod was taken from there;
// or it sits out the pause after a refusal, and what has happened since may help. It
// is to be asked for by a Plan of its own, and Unclaim is to follow.
func (g Queueing) MoreUrgent(by types.UID, now time.Time) (types.UID, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[by]
	if m == nil || m.assignment != nil || m.urgent {
		return "", false
	}
	var first *member
	for _, s := range g.unassignedGroups {
		if s == m.group || !s.hasReplacements() {
			continue
		}
		if s.endPause() {
			g.updateRetry(s)
		}
		o := s.members[s.chooseLateRepresentative(now)]
		if o != nil && o.isReplacement() && g.verdict(o, now).Pass && (first == nil || o.rank().Less(first.rank())) {
			first = o
		}
	}
	if first == nil {
		return "", false
	}
	return first.pod.UID, true
}

// endPause lets members that wait for places ask at once that an event lets ask again, but
// for those whose refusals no event is sure to follow: asking may repeat these. It says
// whether there were any.
func (s *groupPositions) endPause() bool {
	ended := false
	for _, m := range s.replacements {
		if m.refusal != nil && m.refusal.helped && !m.refusal.Backoff {
			m.refusal, ended = nil, true
		}
	}
	return ended
}
