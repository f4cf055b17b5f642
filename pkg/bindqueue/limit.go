package bindqueue

import "time"

// limit bounds the binds in flight by AIMD (additive increase, multiplicative decrease): it is
// halved when the API server throttles a bind, and grows by one a second while binds succeed.
type limit struct {
	// max is the configured limit. current is the limit that holds now.
	max, current int
	// halved is when the limit was last halved. Binds that were in flight then do not
	// halve it again.
	halved time.Time
	// grown is when the limit last grew or was halved.
	grown time.Time
	// pausedUntil is the time before which no bind is sent, as the API server asked.
	pausedUntil time.Time
}

// growEvery is the time between two increases of the limit.
const growEvery = time.Second

func newLimit(max int) limit { return limit{max: max, current: max} }

// halve records that a bind sent at sentAt was throttled. It pauses the bind queue
// for retryAfter. It halves the limit, unless the limit was halved after sentAt.
func (l *limit) halve(sentAt, now time.Time, retryAfter time.Duration) {
	if until := now.Add(retryAfter); until.After(l.pausedUntil) {
		l.pausedUntil = until
	}
	if !sentAt.After(l.halved) && !l.halved.IsZero() {
		return
	}
	l.current = max(1, l.current/2)
	l.halved, l.grown = now, now
}

// grow records that a bind succeeded. It raises the limit by one if the limit has not
// changed for growEvery.
func (l *limit) grow(now time.Time) {
	if l.current < l.max && now.Sub(l.grown) >= growEvery {
		l.current++
		l.grown = now
	}
}
