package group

import (
	"fmt"
	"time"

	"github.com/flux-k8s/fluence/pkg/fsd"
)

// DurationAnnotation is a Flux Standard Duration (Flux RFC 23) such as "30m", "2h" or "1.5d": for how long the pods of
// a group hold their nodes at most, each counted from its bind. The value "inf" is the same as none.
const DurationAnnotation = "fluence.flux-framework.org/duration"

// maxDuration is the longest duration. Ends beyond it say nothing, and not all times can be written.
const maxDuration = 100 * 365 * 24 * time.Hour

// ParseDuration reads a value of DurationAnnotation. It returns 0 if there is no duration. The error names the
// annotation and the value in words fit for a user.
func ParseDuration(value string) (time.Duration, error) {
	if value == "" {
		return 0, nil
	}
	d, err := fsd.Parse(value)
	switch {
	case err != nil:
		return 0, fmt.Errorf("annotation %s: %w", DurationAnnotation, err)
	case d == fsd.Infinite:
		return 0, nil
	case d <= 0:
		return 0, fmt.Errorf("annotation %s: %q: must be more than 0; inf is a time without an end", DurationAnnotation, value)
	case d > maxDuration:
		return 0, fmt.Errorf("annotation %s: %q: must be at most 36500d; inf is a time without an end", DurationAnnotation, value)
	}
	return d, nil
}
