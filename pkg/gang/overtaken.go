package gang

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Overtaken returns the member that is to be asked for before a pod whose scheduling
// cycle begins: it takes the place of one that its started group lacks, and does not stand before the
// pod in the queue. It came into the queue before its group lacked anything, as on a
// standby while another scheduler is at work, or after the pod was taken from there;
// or it sits out the pause after a refusal, and what has happened since may help. It
// is to be asked for by a Plan of its own, and Unclaim is to follow.
func (g *Groups) Overtaken(by types.UID, now time.Time) (types.UID, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[by]
	if m == nil || m.seat != nil || m.urgent {
		return "", false
	}
	var first *member
	for _, s := range g.unseated {
		if s == m.group || !s.isReplaced() {
			continue
		}
		s.endPause()
		o := s.members[s.chooseLate(now)]
		if o != nil && o.replaces() && g.admit(o, now).Pass && (first == nil || g.rank(o).Less(g.rank(first))) {
			first = o
		}
	}
	if first == nil {
		return "", false
	}
	return first.pod.UID, true
}

// isReplaced says whether members wait that take the places of some that the group lacks.
func (s *state) isReplaced() bool { return len(s.claimants) > 0 && s.lacking() > 0 }

// endPause lets members that wait for places ask at once that an event lets ask again, but
// for those whose refusals no event is sure to follow: asking may repeat these. It says
// whether there were any.
func (s *state) endPause() bool {
	ended := false
	for _, m := range s.claimants {
		if m.refusal != nil && m.refusal.released && !m.refusal.Backoff {
			m.refusal, ended = nil, true
		}
	}
	return ended
}

// lacking is how many members a group that has started has too few.
func (s *state) lacking() int {
	if !s.started {
		return 0
	}
	return max(0, s.owed()-s.count((*member).present))
}

// owed is how many members a group that has started is to have.
func (s *state) owed() int {
	if s.met > 0 {
		return min(s.met, s.minimum())
	}
	return s.minimum()
}

// lackingOnes lists more groups that may ask, before those that may: who replaces what
// they lack goes before all others, so where an event helps both they do not wait for
// the end of their pause.
func (g *Groups) lackingOnes(but []types.NamespacedName) []types.NamespacedName {
	var keys []types.NamespacedName
	for _, s := range g.unseated {
		if s.isReplaced() && s.endPause() && !slices.Contains(but, s.key) {
			keys = append(keys, s.key)
		}
	}
	return keys
}
