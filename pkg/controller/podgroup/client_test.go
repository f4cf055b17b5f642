package podgroup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// transport is an http.RoundTripper that is a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// unanswered holds each request until its context ends.
func unanswered(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func newDropped() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "dropped"})
}

// eventsOver returns a function that sends an event over a transport.
func eventsOver(t *testing.T, over http.RoundTripper) func(context.Context) error {
	t.Helper()
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{QPS: -1}, &http.Client{Transport: over})
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) error {
		_, err := client.EventsV1().Events("ns").Create(ctx, &eventsv1.Event{}, metav1.CreateOptions{})
		return err
	}
}

func TestAnEventWithoutAnAnswerGivesUpItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send := eventsOver(t, limitEvents(transport(unanswered), newDropped()))
		begin := time.Now()
		var sent sync.WaitGroup
		for range 2 * maxEventsInFlight {
			sent.Go(func() {
				if err := send(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("an event without an answer: %v", err)
				}
			})
		}
		sent.Wait()
		if took := time.Since(begin); took != 2*eventTimeout {
			t.Errorf("two events for each place took %s, want %s", took, 2*eventTimeout)
		}
	})
}

func TestAnEventIsInFlightUntilItsAnswerIsRead(t *testing.T) {
	var inFlight context.Context
	over := limitEvents(transport(func(req *http.Request) (*http.Response, error) {
		inFlight = req.Context()
		return &http.Response{Body: http.NoBody}, nil
	}), newDropped())
	for range 2 * maxEventsInFlight { // each gives its place back
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://api/apis/events.k8s.io/v1/events", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := over.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := inFlight.Err(); err != nil {
			t.Errorf("before its answer was read: %v", err)
		}
		for range 2 {
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		if inFlight.Err() == nil {
			t.Error("it is in flight after its answer was read")
		}
	}
}

// The controller holds maxPendingEvents events. It drops any further
// one: the event is not sent, and client-go does not retry it.
func TestEventsBeyondThoseThatAreKeptAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dropped := newDropped()
		send := eventsOver(t, limitEvents(transport(unanswered), dropped))
		ctx, cancel := context.WithCancel(t.Context())
		var sent sync.WaitGroup
		for range maxPendingEvents {
			sent.Go(func() {
				if err := send(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("an event that is kept: %v", err)
				}
			})
		}
		synctest.Wait()
		if err := send(t.Context()); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "5000 events wait") {
			t.Errorf("an event beyond these: %v", err)
		}
		cancel()
		sent.Wait()
		if err := send(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one when these are gone: %v", err)
		}
		var m dto.Metric
		if err := dropped.Write(&m); err != nil || m.GetCounter().GetValue() != 1 {
			t.Errorf("%v events are said to be dropped, error %v; want 1", m.GetCounter().GetValue(), err)
		}
	})
}

// A server that delays events has few of them at a time, and gets all other requests meanwhile.
func TestFewEventsAreInFlight(t *testing.T) {
	const events = 50
	held, goOn := make(chan struct{}, events), make(chan struct{})
	var mu sync.Mutex
	inFlight, most := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			return
		}
		mu.Lock()
		inFlight++
		most = max(most, inFlight)
		mu.Unlock()
		held <- struct{}{}
		<-goOn
		mu.Lock()
		inFlight--
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"Event","apiVersion":"events.k8s.io/v1"}`)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: -1}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return limitEvents(next, newDropped()) })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var sent sync.WaitGroup
	for range events {
		sent.Go(func() {
			if _, err := client.EventsV1().Events("ns").Create(t.Context(), &eventsv1.Event{}, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	for range maxEventsInFlight {
		<-held
	}
	if err := client.CoreV1().RESTClient().Get().AbsPath("/version").Do(t.Context()).Error(); err != nil {
		t.Errorf("what is no event: %v", err)
	}
	if _, err := client.CoreV1().RESTClient().Get().AbsPath("/apis/events.k8s.io").Do(t.Context()).Raw(); err != nil {
		t.Errorf("what only looks like an event: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.EventsV1().Events("ns").Create(ctx, &eventsv1.Event{}, metav1.CreateOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("an event that nobody wants any more: %v", err)
	}
	close(goOn)
	sent.Wait()
	if most != maxEventsInFlight {
		t.Errorf("%d events were in flight at a time, want %d", most, maxEventsInFlight)
	}
}
