package podgroup

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// controllerMetrics are the metrics of the controller. A nil controllerMetrics counts nothing.
type controllerMetrics struct {
	podGroups  *prometheus.CounterVec
	evictions  *prometheus.CounterVec
	incomplete prometheus.Gauge
	dropped    prometheus.Counter
}

// The values of the label action for PodGroups, and of the label outcome for evictions.
const (
	actionCreated  = "created"
	actionDeleted  = "deleted"
	outcomeEvicted = "evicted"
	outcomeRefused = "refused"
)

// newControllerMetrics registers the metrics, or finds them if they are registered already.
func newControllerMetrics(r prometheus.Registerer) (*controllerMetrics, error) {
	c := &controllerMetrics{}
	var errs [4]error
	c.podGroups, errs[0] = registered(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fluence_controller_podgroups_total", Help: "PodGroups that the controller created, or deleted after their last pod was gone, by action.",
	}, []string{"action"}))
	c.evictions, errs[1] = registered(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fluence_controller_evictions_total", Help: "Evictions of pods of incomplete groups that are restarted, and of pods after their duration, by outcome: evicted, or refused by the API server.",
	}, []string{"outcome"}))
	c.incomplete, errs[2] = registered(r, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "fluence_controller_incomplete_groups", Help: "Groups that have lacked members for longer than their timeout.",
	}))
	c.dropped, errs[3] = registered(r, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "fluence_controller_events_dropped_total", Help: fmt.Sprintf("Events of the controller that were dropped because more than %d waited to be sent.", maxPendingEvents),
	}))
	for _, action := range []string{actionCreated, actionDeleted} {
		c.podGroups.WithLabelValues(action)
	}
	for _, outcome := range []string{outcomeEvicted, outcomeRefused} {
		c.evictions.WithLabelValues(outcome)
	}
	return c, errors.Join(errs[:]...)
}

// registered registers a metric, or returns the one that is registered already.
func registered[M prometheus.Collector](r prometheus.Registerer, m M) (M, error) {
	err := r.Register(m)
	if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if m, ok := before.ExistingCollector.(M); ok {
			return m, nil
		}
	}
	if err != nil {
		return m, fmt.Errorf("register a metric: %w", err)
	}
	return m, nil
}

func (c *controllerMetrics) podGroup(action string) {
	if c != nil {
		c.podGroups.WithLabelValues(action).Inc()
	}
}

func (c *controllerMetrics) eviction(outcome string) {
	if c != nil {
		c.evictions.WithLabelValues(outcome).Inc()
	}
}

// setIncomplete updates the gauge when a group becomes incomplete, or stops being so.
func (c *controllerMetrics) setIncomplete(was, is bool) {
	switch {
	case c == nil || was == is:
	case is:
		c.incomplete.Inc()
	default:
		c.incomplete.Dec()
	}
}
