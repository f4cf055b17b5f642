package gang

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A Refusal is a "no" to a group, or to a member of a started one.
type Refusal struct {
	// Reason is one word for machines, Message the sentence for people.
	Reason  string
	Message string
	// RetryOn lists the events after which asking again makes sense.
	RetryOn []Event
	// Backoff also lets the group ask again after a while that doubles with each
	// refusal in a row, and keeps events from letting it ask before the shortest
	// such while. It is for refusals that no event is sure to follow, and that
	// asking again may repeat at once.
	Backoff bool
	// LongBackoff has that while double up to ten minutes instead of one, and no event end it: to
	// ask again costs others. A change of the group ends it, but not within ten seconds of the
	// refusal, and the next one lasts as long as if there had been none.
	LongBackoff bool
	// RetryAfter is after how long the group asks again, whatever happens; 0 leaves it to the
	// others. With Backoff it is the shortest such while.
	RetryAfter time.Duration
	// NodesFound says that nodes were found, which something else refused.
	NodesFound bool
	// WaitsFor says whether the group waits for room.
	WaitsFor WaitsFor
	// Filtered says, with WaitsForNodes, that filters which look at more than nodes refused some: other
	// nodes need not help.
	Filtered bool
	// AlsoRefused names members of a started group that the answer is for as well.
	AlsoRefused []types.UID
}

// A Cure is what a refused group waits for. It says whether the group's time runs; reason.Facts'
// KeepsTurn says the same to a scheduler that takes over, by the reason alone.
type WaitsFor int

const (
	// WaitsForOther says that room that others give back would not help by itself.
	WaitsForOther WaitsFor = iota
	// WaitsForRoom says that it would.
	WaitsForRoom
	// WaitsForNodes says that other nodes would, or the end of what runs on every node. The time of a
	// group that has waited for room stays: whoever makes pods that seem to run on every node could
	// end it.
	WaitsForNodes
	// WaitsForAnswer says that nobody knows, for the engine gave no answer.
	WaitsForAnswer
)

// isAuthorFixable says that a group was refused for something that its author can have be there later, which is
// neither room nor nodes.
func (r *Refusal) isAuthorFixable() bool {
	return r.WaitsFor == WaitsForOther && !r.NodesFound && r.RetryAfter == 0 || r.WaitsFor == WaitsForNodes && r.Filtered
}

// MaxBackoff is the longest time of a Refusal's Backoff.
const MaxBackoff = time.Minute

// The shortest time of a Refusal's Backoff, and the longest where it is Hard.
const (
	minBackoff     = time.Second
	maxLongBackoff = 10 * time.Minute
	// minLongBackoff is the shortest time between a refusal that is Hard and the next enquiry, for
	// what has changed. Who changes groups on purpose has each of them asked for no more often.
	minLongBackoff = 10 * time.Second
)

// The shortest and the longest pause between two refusals in a row, however many
// events happen meanwhile. A pause ends at a multiple of the shortest, so that
// those who may ask again come into the queue together and its order counts.
const (
	minPause = 100 * time.Millisecond
	maxPause = time.Second
)

// activeRefusal is a Refusal in memory.
type activeRefusal struct {
	Refusal
	// rank is the place in the queue of the pod that asked.
	rank Rank
	// retryAt is zero where only an event helps.
	retryAt time.Time
	// earliest is when events begin to help.
	earliest time.Time
	// helped says that such an event has happened.
	helped bool
}

func newActiveRefusal(r Refusal, failures, refused int, now time.Time) *activeRefusal {
	pause := min(maxPause, minPause<<min(refused, 10))
	mem := &activeRefusal{Refusal: r, earliest: now.Add(pause + minPause - 1).Truncate(minPause)}
	most := MaxBackoff
	if r.LongBackoff {
		most = maxLongBackoff
	}
	if r.LongBackoff {
		mem.RetryOn = nil
	}
	if r.Backoff {
		mem.earliest = now.Add(minBackoff)
		mem.retryAt = now.Add(min(most, minBackoff<<min(failures, 10)))
	}
	if r.LongBackoff {
		mem.earliest = now.Add(minLongBackoff)
	}
	if r.RetryAfter > 0 {
		mem.earliest = now.Add(r.RetryAfter)
		mem.retryAt = later(mem.retryAt, mem.earliest)
	}
	return mem
}

func (r *activeRefusal) isActive(now time.Time) bool {
	return r != nil && (r.retryAt.IsZero() || now.Before(r.retryAt))
}

// observe lets an event end the refusal, at the earliest time it can.
func (r *activeRefusal) observe(ev Event) {
	if r == nil || !Helps(r.RetryOn, ev) {
		return
	}
	r.helped = true
	r.hasten()
}

// relevantEvents returns the events that make a difference to the refusal. None does any more when one that
// helps has happened, and the refusal ends at the earliest time that it can.
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

// endsLate says that the refusal ends after the earliest time that it can, if it ends by itself.
func (r *activeRefusal) endsLate() bool { return r.retryAt.IsZero() || r.retryAt.After(r.earliest) }

// hasten has the refusal end at the earliest time that it can.
func (r *activeRefusal) hasten() {
	if r.endsLate() {
		r.retryAt = r.earliest
	}
}

// requestChanged has a refusal end at the earliest time it can, but for one that is not about what was
// asked for, or that said when to ask again.
func (r *activeRefusal) requestChanged() {
	if r == nil || r.Backoff && !r.LongBackoff || r.RetryAfter > 0 {
		return
	}
	r.hasten()
}

// ifTimed is what is left of a refusal where only time can end it.
func (r *activeRefusal) ifTimed() *activeRefusal {
	if r == nil || r.RetryAfter == 0 {
		return nil
	}
	return r
}

// ifTimedOrLong keeps what is Hard, too.
func (r *activeRefusal) ifTimedOrLong() *activeRefusal {
	if r != nil && r.LongBackoff {
		return r
	}
	return r.ifTimed()
}
