package group

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/fsd"
)

// DurationAnnotation is a Flux Standard Duration (Flux RFC 23) such as "30m", "2h" or "1.5d": for how long the pods of
// a group hold their nodes at most, each counted from its bind. The value "inf" is the same as none.
const DurationAnnotation = "fluence.flux-framework.org/duration"

// ParseDuration reads a value of DurationAnnotation. It returns 0 if there is no duration. The error names the
// annotation and the value in words fit for a user.
func ParseDuration(value string) (time.Duration, error) {
	return fsd.ParseLimit("annotation "+DurationAnnotation, value)
}
