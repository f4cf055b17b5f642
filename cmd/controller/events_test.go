package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A server that holds events back has few of them at a time, and meanwhile gets all else.
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
	config.Wrap(limitEvents)
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
	for range eventsInFlight {
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
	if most != eventsInFlight {
		t.Errorf("%d events were in flight at a time, want %d", most, eventsInFlight)
	}
}
