package engine

import (
	"math"
	"time"

	"github.com/flux-k8s/fluence/pkg/planner"
)

// The times that a plan can tell apart: about the years 1697 to 2242.
const (
	firstSecond = -1 << 33
	lastSecond  = 1 << 33
)

// instant returns a time as plans count them, in nanoseconds since 1970. Times
// that these cannot tell are the first, or the last that has an end.
func instant(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < firstSecond:
		return math.MinInt64
	case s > lastSecond:
		return planner.Forever - 1
	}
	return t.UnixNano()
}

// endOf returns the instant at which something ends, planner.Forever for the zero
// time, which is no known end.
func endOf(t time.Time) int64 {
	if t.IsZero() {
		return planner.Forever
	}
	return instant(t)
}

// A window is the time over which a request is to have its resources.
type window struct {
	from, to int64
	// present says that the window begins now: whatever is held is held there,
	// also past its end.
	present bool
}

// windowFrom returns the window of a duration, 0 for one without a known end.
func windowFrom(from int64, d time.Duration) window {
	w := window{from: from, to: planner.Forever}
	if d > 0 && (from < 0 || int64(d) < planner.Forever-from) {
		w.to = from + int64(d)
	}
	return w
}

// meets says whether a promised slot is to have its resources within the window.
func (w window) meets(s *slot) bool {
	return instant(s.start) < w.to && endOf(s.end) > w.from
}

// outlasts says whether a slot that is held holds at any time of the window.
func (w window) outlasts(s *slot) bool {
	return w.present || endOf(s.end) > w.from
}
