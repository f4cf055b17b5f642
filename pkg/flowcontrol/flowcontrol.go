// Package flowcontrol reads from an error for how long an overloaded API server wants no requests.
package flowcontrol

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// DefaultRetryAfter is the pause after a 429 that names none. It is also
// the shortest pause after any 429.
const DefaultRetryAfter = time.Second

// Unlimited returns a copy of a configuration without the client's own limit
// of requests a second. It is for a caller that bounds its requests in flight.
func Unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return config
}

// RetryAfter returns for how long to send nothing after an error, and whether the API server was
// too busy to process the request. It was too busy if it answered 429, or 503 with a time to wait.
func RetryAfter(err error) (after time.Duration, busy bool) {
	seconds, says := apierrors.SuggestsClientDelay(err)
	switch {
	case apierrors.IsTooManyRequests(err):
		return max(DefaultRetryAfter, time.Duration(seconds)*time.Second), true
	case apierrors.IsServiceUnavailable(err) && says:
		return time.Duration(seconds) * time.Second, true
	}
	return 0, false
}
