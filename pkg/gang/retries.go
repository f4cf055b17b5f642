package gang

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Retries is the role that decides when a refused group may retry: at a time, or after an event.
type Retries struct{ *core }

// ObserveEvent records an event. The refusals that it helps
// end at their earliest time. Due returns when that is.
func (g Retries) ObserveEvent(ev Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events[ev]++
	if ev == NodeChanged {
		g.hastenYielders()
	}
	var helped []*groupState
	for s := range g.helpedBy(ev) {
		for b := range s.refusalStates {
			b.refusal.observe(ev)
		}
		g.updateRetry(s)
		helped = append(helped, s)
	}
	for _, s := range helped {
		for b := range s.refusalStates {
			g.pauses.waitForOthers(b.refusal)
		}
		g.updateRetry(s)
	}
}

// ExpireBackoff ends the refusals with Backoff of a group and of its
// members, as if their delay had passed. It reports whether there were any.
func (g Retries) ExpireBackoff(key types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, any := g.groups[key], false
	if s == nil {
		return false
	}
	for b := range s.refusalStates {
		if b.refusal != nil && b.refusal.Backoff {
			b.refusal, any = nil, true
		}
	}
	g.updateRetry(s)
	return any
}

// RetryNow ends the refusals of a group and of its members that wait for room, or were refused with RetryAfter.
func (g Retries) RetryNow(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return
	}
	for b := range s.refusalStates {
		if b.refusal != nil && (b.refusal.WaitsFor == WaitsForRoom || b.refusal.RetryAfter > 0) {
			b.refusal = nil
		}
	}
	g.updateRetry(s)
}

// EndsChanged lets a group and its members ask again that wait for room, because its pods end at another time than before. A change
// during a match counts as if it came afterwards.
func (g Retries) EndsChanged(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.groups[key]
	if s == nil {
		return
	}
	s.podsChanged()
	for b := range s.refusalStates {
		if b.refusal != nil && b.refusal.WaitsFor == WaitsForRoom && b.refusal.RetryAfter == 0 {
			b.refusal = nil
		}
	}
	g.updateRetry(s)
}

// AskAgain ends the pause of groups that were refused for lack of room, as if an event had helped them long ago. A
// refusal with Backoff or RetryAfter stays.
func (g Retries) AskAgain(keys []types.NamespacedName, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		s := g.groups[key]
		if s == nil || s.refusal == nil || s.refusal.WaitsFor != WaitsForRoom || s.refusal.Backoff || s.refusal.RetryAfter > 0 {
			continue
		}
		// It goes before others, so it does not wait for their pauses.
		s.refusal.helped, s.refusal.retryAt, s.refusal.waitedForOthers = true, now, true
		g.updateRetry(s)
	}
}

// updateRetry updates when, and after which events, a group may retry. It has to be called
// after each change of the refusals of the group or of its members, unless recompute follows.
func (g *core) updateRetry(s *groupState) {
	if s.class != nil && !g.belongsToClass(s) {
		g.leaveClass(s)
	}
	var helps eventSet
	var retryAt time.Time
	if g.refusedGroups[s.key] == s {
		for b := range s.refusalStates {
			if b.refusal != nil {
				helps, retryAt = helps|b.refusal.relevantEvents(), sooner(retryAt, b.refusal.retryAt)
				if b == &s.refusalState && b.refusal.inPause() {
					g.pauses.note(b.refusal.rank, b.refusal.retryAt)
				}
			}
		}
	}
	if s.class.hasFollower(s) {
		helps = 0
	}
	if !s.scoutingSince.IsZero() {
		retryAt = sooner(retryAt, s.scoutingSince.Add(scoutTimeout))
	}
	if s.class != nil && s.class.scout == s {
		retryAt = sooner(retryAt, s.class.turnAt)
	}
	g.retries.put(s, retryAt)
	if helps == s.relevantEvents {
		return
	}
	if like := g.byRelevantEvents[s.relevantEvents]; s.relevantEvents != 0 {
		if delete(like, s); len(like) == 0 {
			delete(g.byRelevantEvents, s.relevantEvents)
		}
	}
	if s.relevantEvents = helps; helps == 0 {
		return
	}
	if g.byRelevantEvents[helps] == nil {
		g.byRelevantEvents[helps] = map[*groupState]bool{}
	}
	g.byRelevantEvents[helps][s] = true
}
