package invariants

import (
	"slices"
	"time"
)

// excuses are the times that count towards no limit.
type excuses struct {
	spans []span
	count int
	// before is how long the forgotten excuses lasted.
	before time.Duration
}

// A span is one excuse. Its end is zero while it lasts.
type span struct {
	id       int
	what     string
	from, to time.Time
	// hears reports whether the scheduler heard all the while, or was dead.
	hears bool
}

func (e *excuses) begin(what string, now time.Time) int {
	e.count++
	e.spans = append(e.spans, span{id: e.count, what: what, from: now})
	return e.count
}

func (e *excuses) finish(id int, now time.Time) {
	for i := range e.spans {
		if e.spans[i].id == id {
			e.spans[i].to = now
		}
	}
}

// heard marks an excuse in which the scheduler hears all the while, or is dead.
func (e *excuses) heard(id int) {
	for i := range e.spans {
		if e.spans[i].id == id {
			e.spans[i].hears = true
		}
	}
}

// deaf reports whether a fault kept the scheduler from hearing between two moments.
func (e *excuses) deaf(from, to time.Time) bool {
	return slices.ContainsFunc(e.spans, func(s span) bool { return !s.hears && s.touches(from, to) })
}

func (s span) touches(from, to time.Time) bool {
	return !s.from.After(to) && (s.to.IsZero() || !s.to.Before(from))
}

// clear returns the start of a time of length d before a moment. It moves the start
// back before every excuse that reaches into the time, and twice grace further.
func (e *excuses) clear(at time.Time, d time.Duration) time.Time {
	from := at.Add(-d)
	for again := true; again; {
		again = false
		for _, s := range e.spans {
			if begin := s.from.Add(-2 * grace); begin.Before(from) && s.touches(from.Add(-2*grace), at) {
				from, again = begin, true
			}
		}
	}
	return from
}

func (s span) until(now time.Time) time.Time {
	if s.to.IsZero() || s.to.After(now) {
		return now
	}
	return s.to
}

// elapsed returns the time from one moment to another, without the excused time.
func (e *excuses) elapsed(from, to time.Time) time.Duration {
	d, counted := to.Sub(from), from
	for _, s := range e.spans { // in the order of their beginnings
		begin, end := later(s.from, counted), s.until(to)
		if end.After(begin) {
			d -= end.Sub(begin)
			counted = end
		}
	}
	return d
}

// touches reports whether something was excused between two moments.
func (e *excuses) touches(from, to time.Time) bool {
	return slices.ContainsFunc(e.spans, func(s span) bool { return s.touches(from, to) })
}

// began reports whether an excuse began between two moments.
func (e *excuses) began(from, to time.Time) bool {
	return slices.ContainsFunc(e.spans, func(s span) bool { return s.from.After(from) && !s.from.After(to) })
}

// total returns how long the excuses lasted together.
func (e *excuses) total(now time.Time) time.Duration {
	if len(e.spans) == 0 {
		return e.before
	}
	from := e.spans[0].from
	return e.before + now.Sub(from) - e.elapsed(from, now)
}

// forget drops excuses that ended before a moment. It begins with the first and stops
// at one it keeps, so that an excuse that overlaps with a later one is kept too.
func (e *excuses) forget(before time.Time) {
	n := 0
	for n < len(e.spans) && !e.spans[n].to.IsZero() && e.spans[n].to.Before(before) {
		n++
	}
	if n == 0 {
		return
	}
	gone := excuses{spans: e.spans[:n]}
	e.before += gone.total(later(before, e.spans[n-1].to))
	e.spans = slices.Clone(e.spans[n:])
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
