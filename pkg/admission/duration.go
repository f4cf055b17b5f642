package admission

import (
	"fmt"
	"time"

	"github.com/flux-k8s/fluence/pkg/fsd"
)

// maxDuration is the longest time limit. Ends beyond it say nothing, and not all times can be written.
const maxDuration = 100 * 365 * 24 * time.Hour

// parseDuration reads a time limit, a Flux Standard Duration (RFC 23). It returns 0 for one without an end. The error names
// the field and the value.
func parseDuration(field, text string) (time.Duration, error) {
	d, err := fsd.Parse(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", field, err)
	case d == fsd.Infinite:
		return 0, nil
	case d == 0, d > maxDuration:
		return 0, fmt.Errorf("%s: %q: must be more than 0s and at most 36500d, or inf", field, text)
	}
	return d, nil
}

// endAfter returns when the room of a job is free again that starts at a time, in whole seconds. It returns the zero time if the
// duration is 0, which means that the end is not known.
func endAfter(at time.Time, duration, grace time.Duration) time.Time {
	if duration == 0 {
		return time.Time{}
	}
	end := at.Add(duration + grace).UTC()
	if whole := end.Truncate(time.Second); whole.Before(end) {
		return whole.Add(time.Second)
	}
	return end
}
