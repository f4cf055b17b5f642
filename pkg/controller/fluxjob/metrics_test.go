package fluxjob

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-k8s/fluence/test/metricdoc"
)

func TestEachMetricOfFluxJobsIsDocumented(t *testing.T) {
	rows, err := metricdoc.Read()
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	// It also works if the metric is registered twice.
	for range 2 {
		if _, err := newCounter(registry); err != nil {
			t.Fatal(err)
		}
	}
	served, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range metricdoc.Differences(rows[metricdoc.FluxJobs], served) {
		t.Error(wrong)
	}
}
