package report

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
