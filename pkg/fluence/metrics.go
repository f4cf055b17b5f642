package fluence

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/flux-k8s/fluence/pkg/inventory"
)

// counters count what the inventory finds; kube-scheduler serves them with its own
// at /metrics.
type counters struct {
	drift  *metrics.CounterVec
	nodes  *metrics.Counter
	rounds *metrics.Counter
	loads  *metrics.Counter
}

// newCounters registers the metrics, or finds those that the process has already:
// they count for all that is in it.
func newCounters() (*counters, error) {
	drift, err := registered(metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "fluence_drift_total", StabilityLevel: metrics.ALPHA,
		Help: "Differences between the matcher's graph and the cluster that lasted, by kind. Each was logged and healed; none is to be expected.",
	}, []string{"kind"}))
	if err != nil {
		return nil, err
	}
	c := &counters{drift: drift}
	for _, m := range []struct {
		to         **metrics.Counter
		name, help string
	}{
		{&c.nodes, "fluence_audit_nodes_total", "Nodes of the matcher's graph that were compared with the cluster."},
		{&c.rounds, "fluence_audit_rounds_total", "How often the whole graph was compared with the cluster."},
		{&c.loads, "fluence_graph_loads_total", "How often the matcher's graph was filled: once at the start, and after it was lost."},
	} {
		*m.to, err = registered(metrics.NewCounter(&metrics.CounterOpts{Name: m.name, Help: m.help, StabilityLevel: metrics.ALPHA}))
		if err != nil {
			return nil, err
		}
	}
	for _, kind := range inventory.DriftKinds() {
		drift.WithLabelValues(string(kind)).Add(0) // so that it can be seen to rise
	}
	return c, nil
}

// registered registers a metric, or returns the one that is registered already.
func registered[M metrics.Registerable](m M) (M, error) {
	err := legacyregistry.Register(m)
	if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if m, ok := before.ExistingCollector.(M); ok {
			return m, nil
		}
	}
	if err != nil {
		return m, fmt.Errorf("register metric %s: %w", m.FQName(), err)
	}
	return m, nil
}

// onDrift counts what the inventory found.
func (c *counters) onDrift(d inventory.Drift) { c.drift.WithLabelValues(string(d.Kind)).Inc() }

// onAudit counts what the inventory compared.
func (c *counters) onAudit(nodes int, round bool) {
	c.nodes.Add(float64(nodes))
	if round {
		c.rounds.Inc()
	}
}
