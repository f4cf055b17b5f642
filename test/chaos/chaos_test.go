package chaos

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// Every kind of event happens once, and nothing is found.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	weights := map[string]int{}
	for _, k := range kinds {
		weights[k.name] = 1
	}
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	got, err := Run(ctx, Config{Seed: 5, Events: len(kinds), Nodes: 12, Weights: weights, Queues: true, Log: &log})
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	if want := (Result{Seed: 5, Events: len(kinds), Kills: 2}); got != want {
		t.Errorf("Run() = %v, want %v\n%s", got, want, &log)
	}
	for _, want := range []string{"kill 1", "outage 1", "outgrow 1", "1 processes stopped; 1 API faults", "1 overloads", "probed 1"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the figures do not say %q:\n%s", want, &log)
		}
	}
	// With this seed it lets three requests through at a time, and one wait.
	if strings.Contains(log.String(), "refused 0 requests") {
		t.Errorf("the overload refused nothing:\n%s", &log)
	}
}
