// Package apiwatch ends a process that cannot reach the API server any more.
//
// The watches of such a process come back by themselves, but each waits longer from attempt
// to attempt, up to a minute. Long after the server is back, the process would act on the
// state that it last saw. A process that is started anew sees the present state at once. So
// it is better to end, as after a lost lease, whether the process leads or stands by.
package apiwatch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// pingEvery is the time between two pings, and how long each may take.
const pingEvery = 2 * time.Second

// DefaultTimeout is the timeout without leader election. It equals the
// renew deadline of the leaders of kube-scheduler and controller-runtime.
const DefaultTimeout = 10 * time.Second

// Watch pings the API server until ctx ends, and then returns nil. It returns an error if
// the server has not answered for as long as timeout, in at least two pings in a row. It
// counts pings, not time: otherwise a process that was stopped would end when it continues.
func Watch(ctx context.Context, ping func(context.Context) error, timeout time.Duration) error {
	most := max(2, int((timeout+pingEvery-1)/pingEvery))
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

// Livez returns a ping that requests /livez. The API server answers this path under any load,
// because its flow control exempts it. The checks of etcd and of KMS providers are excluded,
// because a slow etcd would delay the answer. Every HTTP response counts as an answer, whatever
// its status and its body. No connection, no TLS and no response before the deadline are errors.
//
// It speaks HTTP itself, with the credentials of config. client-go's REST client
// hides the status of a response whose body it cannot decode, such as the text
// of flow control's 429 and of a proxy's 503. It also follows redirects.
func Livez(config *rest.Config) (func(context.Context) error, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("build the connection that pings: %w", err)
	}
	base = base.JoinPath("livez")
	base.RawQuery = "exclude=etcd&exclude=kms-providers"
	url := base.String()
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("ask %s: %w", url, err)
		}
		answer, err := transport.RoundTrip(req)
		if err != nil {
			return fmt.Errorf("ask %s: %w", url, err)
		}
		// Over HTTP/1 a connection is kept only if the response was read to its end.
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
		_ = answer.Body.Close()
		return nil
	}, nil
}

// maxAnswer is how many bytes of a response are read.
const maxAnswer = 64 << 10
