package admission

import (
	"math"
	"testing"
	"time"
)

func TestWhatIsNotUsedOfTheEngineMayBeUsedLater(t *testing.T) {
	const part = passEvery / matchingPart
	var a allowance
	for i, step := range []struct {
		after, use, left time.Duration
	}{
		{after: math.MaxInt64, left: maxMatching}, // there was no pass yet
		{use: maxMatching - part, left: part},
		{after: passEvery, use: part, left: part},
		{after: passEvery, use: 10 * maxMatching},
		{after: passEvery, left: part},
		{after: passEvery, left: 2 * part},
		{after: time.Hour, use: part, left: maxMatching - part},
	} {
		a.grow(step.after)
		if a.use(step.use); time.Duration(a) != step.left {
			t.Errorf("step %d: %v are left, want %v", i, time.Duration(a), step.left)
		}
	}
}
