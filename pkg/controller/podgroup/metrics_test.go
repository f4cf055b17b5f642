package podgroup

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/metricdoc"
)

func TestEachMetricOfTheControllerIsDocumented(t *testing.T) {
	rows, err := metricdoc.Read()
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	// It also works if the metrics are registered twice.
	for range 2 {
		if _, err := newControllerMetrics(registry); err != nil {
			t.Fatal(err)
		}
	}
	served, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range metricdoc.Differences(rows[metricdoc.Controller], served) {
		t.Error(wrong)
	}
}

func TestGroupsThatLackMembersAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	counts, err := newControllerMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	r := &reconciler{metrics: counts, memories: map[types.NamespacedName]memory{}}
	lacking := func(shown bool) memory { return memory{hadPods: true, shortfall: shortfall{isReported: shown}} }
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	steps := []struct {
		name   string
		group  string
		memory memory
		want   float64
	}{
		{"one that lacks none", "a", lacking(false), 0},
		{"one that lacks some", "b", lacking(true), 1},
		{"it still does", "b", lacking(true), 1},
		{"another", "a", lacking(true), 2},
		{"it is whole again", "a", lacking(false), 1},
		{"one goes that lacks some", "b", memory{}, 0},
	}
	for _, s := range steps {
		r.remember(key(s.group), s.memory)
		served, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range served {
			if f.GetName() == "fluence_controller_incomplete_groups" && f.GetMetric()[0].GetGauge().GetValue() != s.want {
				t.Errorf("%s: %v groups are incomplete, want %v", s.name, f.GetMetric()[0].GetGauge().GetValue(), s.want)
			}
		}
	}
}
