package reason_test

import (
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// A message says a time of today without its date, and always in UTC. What it says can be read again.
func TestTimesAreInUTC(t *testing.T) {
	now := time.Date(2026, 11, 26, 23, 30, 0, 0, time.UTC)
	east := time.FixedZone("", 3600)
	for want, at := range map[string]time.Time{
		"14:05:10Z":            time.Date(2026, 11, 26, 15, 5, 10, 999, east),
		"00:00:00Z":            time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC),
		"2026-11-27T00:00:00Z": time.Date(2026, 11, 27, 1, 0, 0, 0, east),
		"2025-11-26T14:05:10Z": time.Date(2025, 11, 26, 14, 5, 10, 0, time.UTC),
	} {
		got := reason.Time(at, now.In(east))
		if read, err := reason.ParseTime(got, now.In(east)); got != want || err != nil || !read.Equal(at.Truncate(time.Second)) {
			t.Errorf("Time(%v) = %q, want %q; it is read as %v, %v", at, got, want, read, err)
		}
	}
	for _, text := range []string{"", "14:05:10", "14:05Z", "tomorrow"} {
		if at, err := reason.ParseTime(text, now); err == nil {
			t.Errorf("ParseTime(%q) = %v", text, at)
		}
	}
}
