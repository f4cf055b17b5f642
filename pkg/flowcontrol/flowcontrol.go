// Package flowcontrol says what an API server that has too many requests asks of its clients.
package flowcontrol

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// DefaultRetryAfter is for how long nothing is sent after an answer of 429 that does not say so.
const DefaultRetryAfter = time.Second

// Unlimited returns a configuration without the client's own limit of requests a second. It is for
// those who bound how many requests are in flight.
func Unlimited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return config
}

// RetryAfter says whether the API server did not look at a request since it has too many, and for how
// long to send nothing. It answers 429 then, or 503 with a time to wait.
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
