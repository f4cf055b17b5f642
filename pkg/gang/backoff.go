package gang

import "time"

// A refusalState holds the last refusal of a group or of a late member,
// with or without Backoff, and the counts by which the next delay grows.
type refusalState struct {
	// refusal is the last refusal. It is nil if there
	// is none, or if Due has found that it has ended.
	refusal *activeRefusal
	// failures counts the refusals with Backoff. Their delay doubles with each. The count begins
	// anew when the group starts, when its incarnation ends, and when the request changes.
	failures int
	// refusalCount counts the refusals since the last
	// match. The pause after them doubles with each.
	refusalCount int
	// hadLongBackoff is true if one of the counted failures had
	// LongBackoff. Then a change of the request does not reset failures.
	hadLongBackoff bool
	// requestChanges counts the changes of what the group asks for.
	requestChanges uint64
}

// refuse records a refusal of a pod that has this rank, and returns it.
func (b *refusalState) refuse(r Refusal, rank Rank, now time.Time) *activeRefusal {
	b.refusal = newActiveRefusal(r, b.failures, b.refusalCount, now)
	b.refusal.rank = rank
	b.refusalCount++
	if b.hadLongBackoff = b.hadLongBackoff || r.LongBackoff; r.Backoff {
		b.failures++
	}
	return b.refusal
}

// reset clears the refusal and the count of failures. A refusal with RetryAfter stays.
func (b *refusalState) reset() {
	b.refusal, b.failures, b.hadLongBackoff = b.refusal.keepIfRetryAfter(), 0, false
}

// resetExceptLongBackoff does what reset does. But a refusal with
// LongBackoff stays, and so does the count of failures after it.
func (b *refusalState) resetExceptLongBackoff() {
	b.refusal = b.refusal.keepIfRetryAfterOrLongBackoff()
	if !b.hadLongBackoff {
		b.failures = 0
	}
}

// refusalStates yields the state of the group first, and then the state of each member.
func (s *groupState) refusalStates(yield func(*refusalState) bool) {
	if !yield(&s.refusalState) {
		return
	}
	s.update()
	for _, m := range s.refused {
		s.changed(m) // the caller may change the state
		if !yield(&m.refusalState) {
			return
		}
	}
}

// isRemembered reports whether there is a refusal, or a count of failures.
func (b *refusalState) isRemembered() bool {
	return b.refusal != nil || b.failures > 0 || b.hadLongBackoff
}

// clearRefusals clears the refusals of a group and of its members, so that the group
// may retry at once. A refusal with RetryAfter stays, because it protects other groups.
func (s *groupState) clearRefusals() {
	for b := range s.refusalStates {
		b.reset()
	}
}

// requestChanged records that the group may ask for something else now. It
// clears refusals as clearRefusals does. But a refusal with LongBackoff
// ends at its earliest time, and the delay of the next one goes on growing.
func (s *groupState) requestChanged() {
	s.podsChanged()
	for b := range s.refusalStates {
		b.resetExceptLongBackoff()
	}
}

// podsChanged records that the group consists of other pods now. The refusal of the group
// ends at its earliest time, and so do the members' refusals with LongBackoff. Whether the
// change makes a difference is not checked, because that would take as much work as a match.
func (s *groupState) podsChanged() {
	s.requestChanges++
	s.refusal.hastenForRequest()
	s.update()
	for _, m := range s.refused {
		if m.refusal != nil && m.refusal.LongBackoff {
			m.refusal.hastenForRequest()
		}
	}
}
