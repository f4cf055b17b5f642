package podgroup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// clientQPS bounds the requests per second that the client sends to the API server for each
	// kind of object. The limit is only a safeguard against an endless loop. Normally the requests
	// are bounded by the number of groups that are reconciled at a time, each with one request in
	// flight, and by maxEventsInFlight. A thousand Jobs need a write each as soon as they come, and
	// these must not wait for the client.
	clientQPS = 1000
	// clientBurst is the number of requests that the client may send at once.
	clientBurst = 2000
	// maxEventsInFlight bounds the events that are being sent to the API server at a time. Events
	// can wait, because no decision depends on them.
	maxEventsInFlight = 4
	// maxPendingEvents bounds the events that are waiting or in flight. Further events are dropped.
	maxPendingEvents = 5000
	// eventTimeout bounds the time for which an event is in flight.
	eventTimeout = 30 * time.Second
)

// LimitClient sets QPS and burst of a client configuration. It also limits the events that the
// clients of this configuration send at a time.
func LimitClient(config *rest.Config) error {
	m, err := newControllerMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = clientQPS, clientBurst
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return limitEvents(next, m.dropped) })
	return nil
}

// limitEvents returns a transport that has at most maxEventsInFlight events in flight. It
// sends all other requests at once. The limit is there because client-go starts a goroutine
// for each event: without it, the events of a thousand groups would fill the queues of the
// API server, and the API server would throttle other writes of the controller.
func limitEvents(next http.RoundTripper, dropped prometheus.Counter) http.RoundTripper {
	return eventLimiter{next, dropped, make(chan struct{}, maxPendingEvents), make(chan struct{}, maxEventsInFlight)}
}

// eventLimiter is the transport that limitEvents returns.
type eventLimiter struct {
	next    http.RoundTripper
	dropped prometheus.Counter
	// pending and inFlight are semaphores: pending counts all events that are waiting or in flight,
	// and inFlight only those in flight.
	pending, inFlight chan struct{}
}

// RoundTrip implements http.RoundTripper. An event is
// in flight until the body of its response is closed.
func (l eventLimiter) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.Contains(req.URL.Path, "/apis/events.k8s.io/") {
		return l.next.RoundTrip(req)
	}
	select {
	case l.pending <- struct{}{}:
	default:
		l.dropped.Inc()
		closeBody(req)
		return tooManyEvents(req)
	}
	select {
	case l.inFlight <- struct{}{}:
	case <-req.Context().Done():
		<-l.pending
		closeBody(req)
		return nil, req.Context().Err()
	}
	ctx, cancel := context.WithTimeout(req.Context(), eventTimeout)
	done := sync.OnceFunc(func() {
		cancel()
		<-l.inFlight
		<-l.pending
	})
	resp, err := l.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		done()
		return nil, err
	}
	resp.Body = eventBody{resp.Body, done}
	return resp, nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// eventBody is the body of the response to an event. It calls done when it is closed.
type eventBody struct {
	io.ReadCloser
	done func()
}

// Close implements io.Closer.
func (a eventBody) Close() error {
	defer a.done()
	return a.ReadCloser.Close()
}

// tooManyEvents is the response to an event that is dropped: a status error. client-go logs it and
// does not send the event again. After an error of the transport client-go would retry the event.
func tooManyEvents(req *http.Request) (*http.Response, error) {
	status := apierrors.NewTooManyRequestsError(fmt.Sprintf("event dropped: more than %d events wait to be sent", maxPendingEvents)).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	text, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("drop an event: %w", err)
	}
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, Request: req,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: io.NopCloser(bytes.NewReader(text)),
	}, nil
}
