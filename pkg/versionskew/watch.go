package versionskew

import (
	"context"
	"time"

	apiversion "k8s.io/apimachinery/pkg/version"
)

const (
	// askEvery is the time between two requests.
	askEvery = 30 * time.Second
	// askTimeout bounds one request.
	askTimeout = 10 * time.Second
)

// Watch asks for the version of the API server at once and then every askEvery until ctx ends,
// because a server may be upgraded while its clients run. It calls tell with the error of
// Check for the first version, and for each version that differs from the one before. It calls
// tell with nil when a version follows for which this build is made. It ignores requests that
// fail, because a server under load may reject them and the next one comes soon.
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
