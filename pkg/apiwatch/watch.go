// Package lifeline tells a process that it has lost the API server.
//
// The watches of such a process come back by themselves, but each waits longer from
// attempt to attempt, up to a minute: long after the server is there again it would
// act on what it last saw. A process that starts anew sees all at once, as one does
// that lost its lease; so it is better to end, whether it leads or stands by.
package apiwatch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// pingEvery is the time between two questions, and how long each may take.
const pingEvery = 2 * time.Second

// DefaultTimeout is the patience of those who have no lease that says otherwise:
// that of kube-scheduler's and controller-runtime's leaders.
const DefaultTimeout = 10 * time.Second

// Watch asks again and again whether the API server answers. It returns nil when ctx
// ends, and an error when the server has not answered for as long as patience, asked
// several times in a row: a process that was stopped meanwhile is not counted as
// one that asked in vain.
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

// Livez returns a ping that asks /livez, which the API server answers under any load:
// its flow control exempts that path. What stands behind the server is left out, for a
// slow etcd would delay the answer. Every answer of HTTP will do, whatever its status and
// its body; only silence is an error: no connection, no TLS, no answer before the deadline.
//
// It speaks HTTP itself, with the credentials of config. client-go's REST client hides
// the status of an answer whose body it cannot decode, such as the text of flow control's
// 429 and of a proxy's 503, and it follows redirects.
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
		// Over HTTP/1 a connection is kept only if the answer was read to its end.
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
		_ = answer.Body.Close()
		return nil
	}, nil
}

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 64 << 10
