package gang

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// MoreUrgent returns a member that is to be placed before a pod whose
// scheduling cycle begins. The member replaces a missing member of its started
// group, but the queue does not have it before the pod. There are three causes:
//
//   - The member came into the queue before its group had a missing member, such as on a standby.
//   - The member came into the queue after the pod was taken from it.
//   - The member waits for the end of the pause after a
//     refusal, and an event has happened that may help.
//
// The caller makes a separate Plan for the member, and then calls
// Unclaim. MoreUrgent returns false if there is no such member.
func (g Queueing) MoreUrgent(uid types.UID, now time.Time) (types.UID, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[uid]
	if m == nil || m.assignment != nil || m.urgent {
		return "", false
	}
	var first *member
	for _, s := range g.replacementGroups {
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

// endPause ends the pause of waiting replacements that an event has helped,
// so that they may retry at once. A refusal with Backoff stays, because a
// retry may just repeat it. endPause reports whether it ended a pause.
func (s *groupPositions) endPause() bool {
	ended := false
	for _, m := range s.replacements {
		if m.refusal != nil && m.refusal.helped && !m.refusal.Backoff {
			m.refusal, ended = nil, true
			m.group.changed(m)
		}
	}
	return ended
}
