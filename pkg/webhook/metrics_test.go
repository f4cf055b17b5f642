package webhook

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-k8s/fluence/test/metricdoc"
)

func TestEachMetricOfTheWebhookIsDocumented(t *testing.T) {
	rows, err := metricdoc.Read()
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	// It also works if the metrics are registered twice.
	for range 2 {
		if _, err := newObjectCounter(registry); err != nil {
			t.Fatal(err)
		}
		if _, err := newExpiryGauge(registry); err != nil {
			t.Fatal(err)
		}
		if _, err := newErrorCounter(registry); err != nil {
			t.Fatal(err)
		}
	}
	served, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range metricdoc.Differences(rows[metricdoc.Webhook], served) {
		t.Error(wrong)
	}
}
