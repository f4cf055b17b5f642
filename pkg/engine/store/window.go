package store

import (
	"math"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/planner"
)

// The range of times that a plan can hold: about the years 1697 to 2242.
const (
	firstSecond = -1 << 33
	lastSecond  = 1 << 33
)

// Instant returns a time in the unit of plans: nanoseconds since 1970.
// A time before the range is the smallest int64. A time after the range
// is planner.Forever - 1, so that it still counts as a known end.
func Instant(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < firstSecond:
		return math.MinInt64
	case s > lastSecond:
		return planner.Forever - 1
	}
	return t.UnixNano()
}

// endOf returns an end as an instant. The zero time, which is no known end, is planner.Forever.
func endOf(t time.Time) int64 {
	if t.IsZero() {
		return planner.Forever
	}
	return Instant(t)
}

// A Window is the time during which a request needs its resources.
type Window struct {
	start, end int64
	// present reports whether the window begins now. In such a window every allocation counts, even
	// past its end.
	present bool
}

// WindowFrom returns the window of a duration. Zero means that the end is not known.
func WindowFrom(from int64, d time.Duration) Window {
	w := Window{start: from, end: planner.Forever}
	if d > 0 && (from < 0 || int64(d) < planner.Forever-from) {
		w.end = from + int64(d)
	}
	return w
}

// overlaps reports whether the time of a reserved slot overlaps the window.
func (w Window) overlaps(s *Slot) bool {
	return Instant(s.start) < w.end && endOf(s.end) > w.start
}

// overlapsHeld reports whether an allocated slot is held at any time of the window.
func (w Window) overlapsHeld(s *Slot) bool {
	return w.present || endOf(s.end) > w.start
}

// WindowOf returns the window of a request that starts now.
func WindowOf(r *match.Request) Window { return WindowFrom(Instant(r.Now), r.Duration) }

// Start returns the start of the window.
func (w Window) Start() int64 { return w.start }
