package webhook

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// The outcomes of a request, as values of the label outcome.
const (
	outcomeLabelled   = "labelled"
	outcomeUnchanged  = "unchanged"
	outcomeUnreadable = "unreadable"
	outcomeBug        = "bug"
)

// newExpiryGauge registers the gauge of the time at which the webhook's certificate ends, or finds
// it if it is registered already.
func newExpiryGauge(r prometheus.Registerer) (prometheus.Gauge, error) {
	return registered[prometheus.Gauge](r, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "fluence_webhook_certificate_expiration_timestamp_seconds", Help: "When the webhook's certificate expires, in seconds since 1970; 0 if the controller does not make the certificate.",
	}))
}

// newErrorCounter registers the counter of failed checks of the
// webhook's certificate, or finds it if it is registered already.
func newErrorCounter(r prometheus.Registerer) (prometheus.Counter, error) {
	return registered[prometheus.Counter](r, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "fluence_webhook_certificate_errors_total", Help: "Failed attempts to bring the webhook's certificate and configuration up to date.",
	}))
}

// newObjectCounter registers the counter of objects that were created
// under the webhook, or finds it if it is registered already.
func newObjectCounter(r prometheus.Registerer) (*prometheus.CounterVec, error) {
	objects, err := registered(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fluence_webhook_objects_total", Help: "Objects that the webhook was called for, by outcome: labelled, unchanged, unreadable or bug.",
	}, []string{"outcome"}))
	if err != nil {
		return nil, err
	}
	for _, outcome := range []string{outcomeLabelled, outcomeUnchanged, outcomeUnreadable, outcomeBug} {
		objects.WithLabelValues(outcome)
	}
	return objects, nil
}

// registered registers a metric, or returns the one that is registered already.
func registered[M prometheus.Collector](r prometheus.Registerer, metric M) (M, error) {
	err := r.Register(metric)
	if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if there, ok := before.ExistingCollector.(M); ok {
			return there, nil
		}
	}
	if err != nil {
		return metric, fmt.Errorf("register a metric of the webhook: %w", err)
	}
	return metric, nil
}

// count counts an object by outcome.
func (h *handler) count(outcome string) {
	if h.outcomes != nil {
		h.outcomes.WithLabelValues(outcome).Inc()
	}
}
