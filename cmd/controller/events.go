package main

import (
	"net/http"
	"strings"
)

// eventsInFlight is how many events are on their way to the API server at a time. Events
// can wait: nothing is decided by them.
const eventsInFlight = 4

// limitEvents returns a transport that sends so many events at a time, and all else at
// once. client-go sends each event in a goroutine of its own: those of a thousand groups
// that are complete at the same time would take the place of the controller's other
// writes in the queues of the API server, or be refused there.
func limitEvents(next http.RoundTripper) http.RoundTripper {
	return limited{next, make(chan struct{}, eventsInFlight)}
}

// limited holds back what is about events. A request in flight has a place.
type limited struct {
	next   http.RoundTripper
	places chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.Contains(req.URL.Path, "/apis/events.k8s.io/") {
		return l.next.RoundTrip(req)
	}
	select {
	case l.places <- struct{}{}:
	case <-req.Context().Done():
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, req.Context().Err()
	}
	defer func() { <-l.places }()
	return l.next.RoundTrip(req)
}
