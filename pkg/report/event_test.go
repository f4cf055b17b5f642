package report

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/flux-k8s/fluence/test/objects"
)

// withEventWriter runs a test in a bubble, with a writer for whose events neither binds nor
// conditions go first.
func withEventWriter(t *testing.T, test func(*testing.T, *EventWriter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, err := NewEventWriter(&rest.Config{Host: "http://api.test"}, "fluence", "me")
		if err != nil {
			t.Fatal(err)
		}
		free := make(chan struct{})
		close(free)
		w.BindsIdle, w.HasPendingConditions = func() <-chan struct{} { return free }, func() bool { return false }
		ctx, cancel := context.WithCancel(t.Context())
		go w.Run(ctx)
		test(t, w)
		cancel()
		synctest.Wait()
	})
}

func TestTheOldestOfTooManyEventsAreLost(t *testing.T) {
	withEventWriter(t, func(t *testing.T, w *EventWriter) {
		dropped := 0
		w.Dropped = func() { dropped++ }
		w.mu.Lock()
		w.pausedUntil = time.Now().Add(time.Hour)
		w.mu.Unlock()
		for i := range maxEvents + 7 {
			w.enqueue(queuedEvent{made: time.Now(), note: fmt.Sprint(i)})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		notes := make([]string, 0, len(w.queue))
		for _, e := range w.queue {
			notes = append(notes, e.note)
		}
		if dropped != 7 || len(notes) != maxEvents || notes[0] != "7" || notes[maxEvents-1] != fmt.Sprint(maxEvents+6) {
			t.Errorf("%d events were dropped and %d are kept, want the oldest 7 dropped", dropped, len(w.queue))
		}
	})
}

// The scheduler's recorder starts a goroutine for each event. The events that it gets
// are therefore paced, faster when they are late.
func TestEventsOfOtherKindsArePaced(t *testing.T) {
	withEventWriter(t, func(t *testing.T, w *EventWriter) {
		own := events.NewFakeRecorder(2 * maxEvents)
		recorder := w.Recorder(own)
		for i := range maxEvents {
			recorder.Eventf(objects.Pod("p"), nil, corev1.EventTypeWarning, "Other", "Test", "%s", fmt.Sprint(i))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got, most := len(own.Events), eventWorkers*(1+int(time.Second/recorderInterval)); got == 0 || got > most {
			t.Errorf("%d events were recorded in a second, want at most %d", got, most)
		}
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if got := len(own.Events); got != maxEvents {
			t.Errorf("%d of %d events were recorded in half a minute", got, maxEvents)
		}
	})
}
