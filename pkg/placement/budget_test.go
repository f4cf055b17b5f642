package placement

import (
	"context"
	"testing"
	"time"
)

// A budget is over when its time is used up, without the time that the attempt waited
// for others, or when its caller has gone.
func TestBudgetIsOver(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx    context.Context
		passed time.Duration
		waited time.Duration
		over   bool
	}{
		"at its end": {t.Context(), time.Second, 0, false}, "past it": {t.Context(), time.Second + 1, 0, true},
		"past it, but for others": {t.Context(), time.Minute, 59 * time.Second, false}, "the caller has gone": {gone, 0, 0, true},
	} {
		a := Budget{ctx: tc.ctx, now: func() time.Time { return noon.Add(tc.passed) }, began: noon, max: time.Second, uncounted: tc.waited}
		if got := a.isOver(); got != tc.over {
			t.Errorf("%s: over %t, want %t", name, got, tc.over)
		}
	}
}
