package group

import (
	"testing"
	"time"
)

func TestQueueOf(t *testing.T) {
	named := func(queue string) map[string]string { return map[string]string{QueueLabel: queue} }
	cases := map[string]struct {
		labels    []map[string]string
		wantQueue string
		wantSaid  bool
	}{
		"no labels":                          {labels: []map[string]string{nil, {}}},
		"the pod template alone has a label": {labels: []map[string]string{nil, named("a")}, wantQueue: "a", wantSaid: true},
		"the Job's own goes first":           {labels: []map[string]string{named("b"), named("a")}, wantQueue: "b", wantSaid: true},
		"an empty value is no queue":         {labels: []map[string]string{named(""), named("a")}, wantSaid: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if queue, said := QueueOf(tc.labels...); queue != tc.wantQueue || said != tc.wantSaid {
				t.Errorf("QueueOf = %q, %t, want %q, %t", queue, said, tc.wantQueue, tc.wantSaid)
			}
		})
	}
}

func TestQueued(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 678901000, time.UTC)
	for _, q := range []Queued{{Since: at}, {Since: at, Held: true}, {Since: at, Duration: "2h"}, {Since: at, Held: true, Duration: "1.5d"}} {
		if got := ParseQueued(q.String()); !got.Since.Equal(at) || got.Held != q.Held || got.Duration != q.Duration {
			t.Errorf("%+v became %q and %+v", q, q, got)
		}
	}
	for _, value := range []string{"", "true", "2030", " ", "held"} {
		if got := ParseQueued(value); got != (Queued{}) {
			t.Errorf("ParseQueued(%q) = %+v, want nothing", value, got)
		}
	}
}
