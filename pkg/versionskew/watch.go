package versionskew

import (
	"context"
	"time"

	apiversion "k8s.io/apimachinery/pkg/version"
)

const (
	// askEvery is the time between two questions.
	askEvery = 30 * time.Second
	// askTimeout bounds one question.
	askTimeout = 10 * time.Second
)

// Watch asks for the version of the API server at once and then again and again, until
// ctx ends: a server may be upgraded while its clients run. It tells what Of says of the
// first version and of each that differs from the one before, and nil of one that this build is made
// for, if it told something else before. A question that fails is
// no fault, for a server under load may refuse it: the next one comes soon.
func Watch(ctx context.Context, ask func(context.Context) (*apiversion.Info, error), tell func(error)) {
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	var last apiversion.Info
	skewed := false
	for {
		if v, err := askOnce(ctx, ask); err == nil && *v != last {
			last = *v
			err := Check(*v)
			if err != nil || skewed {
				tell(err)
			}
			skewed = err != nil
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func askOnce(ctx context.Context, ask func(context.Context) (*apiversion.Info, error)) (*apiversion.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return ask(ctx)
}
