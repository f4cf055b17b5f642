package gang

import (
	"slices"
	"time"
)

// pauses lets groups wait for the pauses of the groups before them. An event helps many groups at once, and the
// pauses after their refusals differ. If each retried at its own time, a group that was refused seldom would take
// the room of a group before it that was refused often. The zero value is ready for use.
//
// It has one entry for each end of a pause. All ends are multiples of minRetryPause, and lie within
// twice maxRetryPause, so that there are few.
type pauses []pauseEnd

// A pauseEnd is a time at which pauses end, and the first by rank of the groups whose pauses end then.
type pauseEnd struct {
	at    time.Time
	first Rank
}

// note records that a group of this rank will retry at a time, when its pause ends.
func (p *pauses) note(rank Rank, at time.Time) {
	i := slices.IndexFunc(*p, func(e pauseEnd) bool { return e.at.Equal(at) })
	switch {
	case i < 0:
		*p = append(*p, pauseEnd{at, rank})
	case rank.Less((*p)[i].first):
		(*p)[i].first = rank
	}
}

// forget forgets the pauses that have ended.
func (p *pauses) forget(now time.Time) {
	*p = slices.DeleteFunc(*p, func(e pauseEnd) bool { return !now.Before(e.at) })
}

// inPause reports whether an event has ended the refusal, and only its pause is left.
func (r *activeRefusal) inPause() bool {
	return r != nil && r.helped && !r.Backoff && r.RetryAfter == 0 && !r.retryAt.IsZero()
}

// waitForOthers makes a refusal last until the pauses of the groups before this one have ended, if an event has ended it.
// It does so once for each refusal, so that no group waits longer for others than their longest
// pause. It reports whether the refusal lasts longer by that.
func (p pauses) waitForOthers(r *activeRefusal) bool {
	if !r.inPause() || r.waitedForOthers {
		return false
	}
	for _, e := range p {
		if e.first.Less(r.rank) && e.at.After(r.retryAt) {
			// Another event must not end it earlier.
			r.retryAt, r.earliest, r.waitedForOthers = e.at, e.at, true
		}
	}
	return r.waitedForOthers
}
