package fluence

import (
	"context"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/flux-k8s/fluence/pkg/match"
)

// timedMatcher is a Matcher that measures the duration of each match.
type timedMatcher struct {
	Matcher
	took *metrics.HistogramVec
	// matched is called after each successful allocation, with the time.
	matched func(time.Time)
}

// Match implements match.Engine.
func (t timedMatcher) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	start := time.Now()
	a, err := t.Matcher.Match(ctx, r)
	now := time.Now()
	t.took.WithLabelValues(match.OutcomeOf(err)).Observe(now.Sub(start).Seconds())
	if err == nil && r.Op == match.Allocate {
		t.matched(now)
	}
	return a, err
}
