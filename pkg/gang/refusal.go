package gang

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A Refusal says why a group, or a member of a started
// group, was not placed, and when it may retry.
type Refusal struct {
	// Reason is one of the words in package reason.
	Reason string
	// Message is the sentence for users.
	Message string
	// RetryOn lists the events after which a retry makes sense.
	RetryOn []Event
	// Backoff lets the group retry after a delay, even without an event. The delay
	// begins with minBackoff and doubles with each refusal in a row, up to
	// MaxBackoff. Events do not shorten it below minBackoff. Backoff is for refusals after
	// which no event is sure to come, and which a retry at once would probably repeat.
	Backoff bool
	// LongBackoff lets the delay of Backoff grow up to maxLongBackoff, and lets no
	// event end it, because a retry costs other groups. A change of the group lets
	// it retry, but not within minLongBackoff of the refusal. The change does not
	// reset the delay: after the next refusal it is as long as without the change.
	LongBackoff bool
	// RetryAfter is the time after which the group retries. No event and no change shortens
	// it. With Backoff it is the shortest delay. 0 means that there is no such time.
	RetryAfter time.Duration
	// NodesFound is true if nodes were found, and something other than the matcher rejected them.
	NodesFound bool
	// WaitsFor says what the group waits for.
	WaitsFor WaitsFor
	// Filtered is set only with WaitsForNodes. It is true if some nodes were rejected by filters that
	// depend on more than the node, such as on pods or volumes. Then other nodes may not help.
	Filtered bool
	// Equivalence is the same for two groups if one would be refused whenever the other is, as far as is known.
	// Such groups ask for the same, in the same namespace and at the same priority. Empty means that no such
	// group is known. It is only for refusals without Backoff and RetryAfter. See equivalenceClass.
	Equivalence string
	// AlsoRefused lists other members of a started group that the refusal is for.
	AlsoRefused []types.UID
}

// A WaitsFor is what a refused group waits for. It decides whether the group
// goes on waiting for room. After a restart only the reason of the refusal is
// known. Then KeepsWaitingTime of reason.Properties decides.
type WaitsFor int

const (
	// WaitsForOther means that room released by others would not help by itself.
	WaitsForOther WaitsFor = iota
	// WaitsForRoom means that room released by others would help.
	WaitsForRoom
	// WaitsForNodes means that other nodes would help, or the end of pods that run on
	// every node. A group that waited for room before keeps its waiting time.
	// Otherwise another user could reset it with pods that seem to run on every node.
	WaitsForNodes
	// WaitsForAnswer means that the matcher gave no answer that holds for long, so that nothing is known.
	WaitsForAnswer
	// WaitsForThrottle means that the matcher was not asked,
	// because the namespace is throttled. So nothing is known.
	WaitsForThrottle
)

// isAuthorFixable reports whether the group was refused for something that its author
// can provide later. That is the case for two kinds of refusals:
//
//   - refusals with WaitsForOther, without NodesFound and RetryAfter;
//   - refusals with WaitsForNodes and Filtered, because those filters may
//     look at something of the author's, such as other pods or volumes.
func (r *Refusal) isAuthorFixable() bool {
	return r.WaitsFor == WaitsForOther && !r.NodesFound && r.RetryAfter == 0 || r.WaitsFor == WaitsForNodes && r.Filtered
}

// MaxBackoff is the longest delay of a Refusal with Backoff, if it has no LongBackoff.
const MaxBackoff = time.Minute

// The other limits of the delay.
const (
	// minBackoff is the shortest delay of a Refusal with Backoff.
	minBackoff = time.Second
	// maxLongBackoff is the longest delay of a Refusal with LongBackoff.
	maxLongBackoff = 10 * time.Minute
	// minLongBackoff is the shortest time between a Refusal with LongBackoff
	// and a retry after a change of the group. Without it a user who changes
	// groups on purpose would have each of them matched more often.
	minLongBackoff = 10 * time.Second
)

// A refusal lasts at least for a pause, even if an event helps earlier. The
// pause begins with minRetryPause and doubles with each refusal in a row, up to
// maxRetryPause. It ends at a multiple of its length, and is shorter or longer by that, but
// never shorter than minRetryPause. So groups that may retry come into the queue together,
// and the order of the queue counts. See pauses for groups whose pauses differ.
const (
	minRetryPause = 100 * time.Millisecond
	maxRetryPause = minRetryPause << 3
)

// pauseAfter returns when the pause of a group ends that is refused now, after so many refusals in a row.
func pauseAfter(refused int, now time.Time) time.Time {
	pause := min(maxRetryPause, minRetryPause<<min(refused, 10))
	end := now.Add(pause).Truncate(pause)
	if end.Sub(now) < minRetryPause {
		end = end.Add(pause)
	}
	return end
}

// An activeRefusal is a Refusal with the times at which it may end.
type activeRefusal struct {
	Refusal
	// rank is the rank of the pod whose attempt was refused.
	rank Rank
	// retryAt is when the refusal ends. It is zero if only an event can end it.
	retryAt time.Time
	// earliest is when an event can end the refusal at the earliest.
	earliest time.Time
	// helped is true if one of the events in RetryOn has happened.
	helped bool
	// waitedForOthers is true if the refusal lasts longer because of the pauses of groups before this one.
	waitedForOthers bool
}

// newActiveRefusal returns a refusal that begins now. The counts are from a refusalState.
func newActiveRefusal(r Refusal, failures, refused int, now time.Time) *activeRefusal {
	active := &activeRefusal{Refusal: r, earliest: pauseAfter(refused, now)}
	most := MaxBackoff
	if r.LongBackoff {
		most = maxLongBackoff
	}
	if r.LongBackoff {
		active.RetryOn = nil
	}
	if r.Backoff {
		active.earliest = now.Add(minBackoff)
		active.retryAt = now.Add(min(most, minBackoff<<min(failures, 10)))
	}
	if r.LongBackoff {
		active.earliest = now.Add(minLongBackoff)
	}
	if r.RetryAfter > 0 {
		active.earliest = now.Add(r.RetryAfter)
		active.retryAt = later(active.retryAt, active.earliest)
	}
	return active
}

// isActive reports whether the refusal is in force. It returns false for nil.
func (r *activeRefusal) isActive(now time.Time) bool {
	return r != nil && (r.retryAt.IsZero() || now.Before(r.retryAt))
}

// observe ends the refusal at its earliest time, if the event is one of RetryOn.
func (r *activeRefusal) observe(ev Event) {
	if r == nil || !Helps(r.RetryOn, ev) {
		return
	}
	r.help()
}

// help ends the refusal at its earliest time, because an event may have changed its cause.
func (r *activeRefusal) help() {
	r.helped = true
	r.hasten()
}

// relevantEvents returns the events that can end the refusal earlier than it would end now.
// It returns none if such an event has already made the refusal end at its earliest time.
func (r *activeRefusal) relevantEvents() eventSet {
	var awaited eventSet
	if r == nil || r.helped && !r.endsLate() {
		return awaited
	}
	for ev := range numEvents {
		if Helps(r.RetryOn, ev) {
			awaited |= 1 << ev
		}
	}
	return awaited
}

// endsLate reports whether the refusal would end by
// itself later than at its earliest time, or never.
func (r *activeRefusal) endsLate() bool { return r.retryAt.IsZero() || r.retryAt.After(r.earliest) }

// hasten makes the refusal end at its earliest time.
func (r *activeRefusal) hasten() {
	if r.endsLate() {
		r.retryAt = r.earliest
	}
}

// hastenForRequest makes the refusal end at its earliest time, because the group
// asks for something else. The group leaves its equivalence class with that. The refusal stays as
// it is if it does not depend on the request: with Backoff but not LongBackoff, or with RetryAfter.
func (r *activeRefusal) hastenForRequest() {
	if r == nil || r.Backoff && !r.LongBackoff || r.RetryAfter > 0 {
		return
	}
	r.Equivalence = ""
	r.hasten()
}

// keepIfRetryAfter returns the refusal if it has RetryAfter,
// because only time can end it. Otherwise it returns nil.
func (r *activeRefusal) keepIfRetryAfter() *activeRefusal {
	if r == nil || r.RetryAfter == 0 {
		return nil
	}
	return r
}

// keepIfRetryAfterOrLongBackoff does what keepIfRetryAfter does, but also returns a refusal with LongBackoff.
func (r *activeRefusal) keepIfRetryAfterOrLongBackoff() *activeRefusal {
	if r != nil && r.LongBackoff {
		return r
	}
	return r.keepIfRetryAfter()
}
