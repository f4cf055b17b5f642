package fluence

import (
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/flux-k8s/fluence/pkg/inventory"
)

// counted returns the sum of a metric as it is served;
// for a histogram, the sum of what was observed.
func counted(name string) float64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		panic(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func drifts() float64 { return counted("fluence_drift_total") }

func TestTheAuditIsServedAsMetrics(t *testing.T) {
	inRig(t, realEngine(t), func(r *rig) {
		r.node("n1", 4)
		r.node("n2", 4)
		names := []string{"fluence_audited_nodes_total", "fluence_audits_total", "fluence_graph_loads_total"}
		before := map[string]float64{}
		for _, name := range names {
			before[name] = counted(name)
		}
		r.pass(3*time.Second + time.Millisecond)
		r.loseGraph()
		r.pass(time.Second / 2)
		want := map[string]float64{"fluence_audited_nodes_total": 6, "fluence_audits_total": 3, "fluence_graph_loads_total": 1}
		for _, name := range names {
			if got := counted(name) - before[name]; got != want[name] {
				t.Errorf("%s rose by %v, want %v", name, got, want[name])
			}
		}
	})
}

func TestADriftOfEachKindIsCounted(t *testing.T) {
	c, err := newCounters()
	if err != nil {
		t.Fatal(err)
	}
	before := drifts()
	for _, kind := range inventory.DriftKinds() {
		(&stateCollector{base: &base{counters: c}}).onDrift(inventory.Drift{Kind: kind})
	}
	if n := drifts() - before; n != float64(len(inventory.DriftKinds())) {
		t.Errorf("%v drifts are counted, want one of each of %q", n, inventory.DriftKinds())
	}
}
