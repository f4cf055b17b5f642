package bindqueue

import "time"

// limit bounds the binds in flight by AIMD (additive increase, multiplicative decrease): it is
// halved when the API server throttles a bind, and grows by one a second while binds succeed.
type limit struct {
	// most is the configured limit. current is the limit that holds now.
	most, current int
	// halved is when the limit was last halved. Binds that were in flight then do not
	// halve it again.
	halved time.Time
	// grown is when the limit last grew or was halved.
	grown time.Time
	// pause is the time before which no bind is sent, as the API server asked.
	pause time.Time
}

// growEvery is the time between two increases of the limit.
const growEvery = time.Second

func newLimit(most int) limit { return limit{most: most, current: most} }

// halve records that a bind sent at sentAt was throttled. It pauses the bind queue
// for the time after. It halves the limit, unless the limit was halved after sentAt.
func (l *limit) halve(sentAt, now time.Time, after time.Duration) {
	if until := now.Add(after); until.After(l.pause) {
		l.pause = until
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
	if l.current < l.most && now.Sub(l.grown) >= growEvery {
		l.current++
		l.grown = now
	}
}
