package report

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

func TestScheduledNamesNodesAndNumbers(t *testing.T) {
	many := map[string]int{}
	for _, n := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		many[n] = 2
	}
	cases := map[string]struct {
		nodes map[string]int
		want  string
	}{
		"one pod":    {map[string]int{"n": 1}, "1 pod on 1 node (n: 1)"},
		"two nodes":  {map[string]int{"n2": 1, "n1": 2}, "3 pods on 2 nodes (n1: 2, n2: 1)"},
		"many nodes": {many, "20 pods on 10 nodes (a: 2, b: 2, c: 2, d: 2, e: 2, f: 2, g: 2, h: 2, and 2 more nodes)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Scheduled(Placement{Nodes: tc.nodes})
			if want := (GroupStatus{Status: metav1.ConditionTrue, Reason: "Placed", Message: tc.want}); got != want {
				t.Errorf("news = %+v, want %+v", got, want)
			}
		})
	}
}

// A group with seats says how many pods are expected, and until when. It counts as placed.
func TestScheduledNamesSeats(t *testing.T) {
	cases := map[string]struct {
		placement Placement
		want      string
	}{
		"the end is known": {
			Placement{Nodes: map[string]int{"n": 3}, Expected: 9, SeatsUntil: time.Date(2026, 3, 1, 15, 5, 59, 0, time.FixedZone("CET", 3600))},
			"3 of 12 bound, 9 expected, seats until 14:05Z: 3 pods on 1 node (n: 3)",
		},
		"the end is not known": {
			Placement{Nodes: map[string]int{"n": 1}, Expected: 1}, "1 of 2 bound, 1 expected: 1 pod on 1 node (n: 1)",
		},
		"a late member waits": {
			Placement{Nodes: map[string]int{"n": 1}, Expected: 1, Waiting: 1, Reason: "NoRoom", Message: "room for 0"},
			"1 of 2 bound, 1 expected: 1 pod on 1 node (n: 1); 1 more pod is without a node: NoRoom: room for 0",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Scheduled(tc.placement)
			if want := (GroupStatus{Status: metav1.ConditionTrue, Reason: "Expecting", Message: tc.want}); got != want {
				t.Errorf("status = %+v, want %+v", got, want)
			}
			pg := &scheduling.PodGroup{}
			pg.Status.Conditions = []metav1.Condition{{Type: ConditionScheduled, Status: got.Status, Reason: got.Reason, Message: got.Message}}
			if n := PlacedPods(pg); n != tc.placement.Nodes["n"] {
				t.Errorf("the condition counts %d placed pods, want %d", n, tc.placement.Nodes["n"])
			}
		})
	}
}

func TestWhyWithoutNodesReadsWhatScheduledWrites(t *testing.T) {
	cases := map[string]struct {
		placement    Placement
		why, message string
	}{
		"all have nodes":            {placement: Placement{Nodes: map[string]int{"n": 1}}},
		"one has none":              {Placement{Nodes: map[string]int{"n": 1}, Waiting: 1, Reason: "NoRoom", Message: "room for 0: cpu is short"}, "NoRoom", "room for 0: cpu is short"},
		"several have none":         {Placement{Nodes: map[string]int{"n": 1}, Waiting: 3, Reason: "NeverFits", Message: "too large"}, "NeverFits", "too large"},
		"one has none beside seats": {Placement{Nodes: map[string]int{"n": 1}, Waiting: 1, Reason: "NoRoom", Message: "room for 0", Expected: 2}, "NoRoom", "room for 0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := Scheduled(tc.placement)
			pg := &scheduling.PodGroup{}
			pg.Status.Conditions = []metav1.Condition{{Type: ConditionScheduled, Status: n.Status, Reason: n.Reason, Message: n.Message}}
			if why, message := WhyWithoutNodes(pg); why != tc.why || message != tc.message {
				t.Errorf("%q: %q, want %q: %q", why, message, tc.why, tc.message)
			}
			pg.Status.Conditions[0].Status = metav1.ConditionFalse
			if why, message := WhyWithoutNodes(pg); why != "" || message != "" {
				t.Errorf("of a group without nodes %q: %q, want nothing", why, message)
			}
		})
	}
}
