// Package lifeline tells a process that it has lost the API server.
//
// The watches of such a process come back by themselves, but each waits longer from
// attempt to attempt, up to a minute: long after the server is there again it would
// act on what it last saw. A process that starts anew sees all at once, as one does
// that lost its lease; so it is better to end, whether it leads or stands by.
package lifeline

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// pingEvery is the time between two questions, and how long each may take.
const pingEvery = 2 * time.Second

// DefaultPatience is the patience of those who have no lease that says otherwise:
// that of kube-scheduler's and controller-runtime's leaders.
const DefaultPatience = 10 * time.Second

// Hold asks again and again whether the API server answers. It returns nil when ctx
// ends, and an error when the server has not answered for as long as patience, asked
// several times in a row: a process that was stopped meanwhile is not counted as
// one that asked in vain.
func Hold(ctx context.Context, ping func(context.Context) error, patience time.Duration) error {
	most := max(2, int((patience+pingEvery-1)/pingEvery))
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for failed := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := pingOnce(ctx, ping)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			failed = 0
			continue
		}
		if failed++; failed >= most {
			return fmt.Errorf("the API server has not answered for %s: %w", time.Duration(failed)*pingEvery, err)
		}
	}
}

func pingOnce(ctx context.Context, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, pingEvery)
	defer cancel()
	return ping(ctx)
}

// Version returns a ping that asks for the version of the API server, which it tells
// everybody and without etcd. Any answer of HTTP will do. It is for one caller at a
// time. The first version, and each that differs from the one before, is told to tell,
// which may be nil.
func Version(config *rest.Config, tell func(version.Info)) (func(context.Context) error, error) {
	config = rest.CopyConfig(config)
	// Not in line with what else the process asks for.
	config.QPS = -1
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build the client that pings: %w", err)
	}
	var last *version.Info
	return func(ctx context.Context) error {
		code := 0
		answer := client.Get().AbsPath("/version").MaxRetries(0).Do(ctx).StatusCode(&code)
		body, err := answer.Raw()
		if code == 0 {
			return err
		}
		var v version.Info
		// Not for something between that answers instead, in words of its own.
		if tell != nil && err == nil && json.Unmarshal(body, &v) == nil && (last == nil || *last != v) {
			last = &v
			tell(v)
		}
		return nil
	}, nil
}
