package bindqueue

import "time"

// limit is how many binds may be in flight: halved when the API server says that it is
// overloaded, and grown by one a second while it takes them.
type limit struct {
	// most is what is configured, now what holds at present.
	most, current int
	// halved is when it was halved last. Binds that were in flight then do not halve it
	// once more.
	halved time.Time
	// grown is when it was grown last.
	grown time.Time
	// pause is until when nothing is sent, as the API server asked for.
	pause time.Time
}

// growEvery is the time between two steps by which the limit grows.
const growEvery = time.Second

func newLimit(most int) limit { return limit{most: most, current: most} }

// halve takes note that a bind that was sent at a time was refused.
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

// grow takes note that a bind was taken.
func (l *limit) grow(now time.Time) {
	if l.current < l.most && now.Sub(l.grown) >= growEvery {
		l.current++
		l.grown = now
	}
}
