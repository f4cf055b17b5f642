package store

import (
	"math"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/planner"
)

// The times that a plan can tell apart: about the years 1697 to 2242.
const (
	firstSecond = -1 << 33
	lastSecond  = 1 << 33
)

// Instant returns a time as plans count them, in nanoseconds since 1970. Times
// that these cannot tell are the first, or the last that has an end.
func Instant(t time.Time) int64 {
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
	return Instant(t)
}

// A Window is the time over which a request is to have its resources.
type Window struct {
	start, end int64
	// present says that the window begins now: whatever is held is held there,
	// also past its end.
	present bool
}

// WindowFrom returns the window of a duration, 0 for one without a known end.
func WindowFrom(from int64, d time.Duration) Window {
	w := Window{start: from, end: planner.Forever}
	if d > 0 && (from < 0 || int64(d) < planner.Forever-from) {
		w.end = from + int64(d)
	}
	return w
}

// overlaps says whether a promised slot is to have its resources within the window.
func (w Window) overlaps(s *Slot) bool {
	return Instant(s.start) < w.end && endOf(s.end) > w.start
}

// overlapsHeld says whether a slot that is held holds at any time of the window.
func (w Window) overlapsHeld(s *Slot) bool {
	return w.present || endOf(s.end) > w.start
}

// WindowOf returns the window of a request that is to be given its resources now.
func WindowOf(r *match.Request) Window { return WindowFrom(Instant(r.Now), r.Duration) }

// Start returns the time at which the window begins.
func (w Window) Start() int64 { return w.start }
