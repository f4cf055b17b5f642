package simulate

import (
	"strings"
	"testing"
	"time"
)

func TestASpreadOverALabelThatNoNodeHasNeverFits(t *testing.T) {
	c := exampleCluster()
	job := `apiVersion: batch/v1
kind: Job
metadata: {name: zones, namespace: ns}
spec:
  parallelism: 6
  completions: 6
  template:
    metadata: {labels: {app: zones}}
    spec:
      schedulerName: fluence
      restartPolicy: Never
      topologySpreadConstraints: [{maxSkew: 1, topologyKey: example.com/row, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: zones}}}]
      containers: [{name: main, image: none, resources: {requests: {cpu: "1"}}}]
`
	w, err := Make(parsed(t, job), c, "fluence", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(t.Context(), c.With(w.Cluster), configuration)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range r.Groups() {
		d, err := r.Decide(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if d.Starts || d.Reason != "NeverFits" || strings.Contains(d.line(), "may help") {
			t.Errorf("%s: %s, want NeverFits", key, d.line())
		}
	}
}
