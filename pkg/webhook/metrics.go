package webhook

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// How the webhook leaves an object.
const (
	outcomeLabelled   = "labelled"
	outcomeUnchanged  = "unchanged"
	outcomeUnreadable = "unreadable"
	outcomeBug        = "bug"
)

// newEnd registers the time at which the webhook's certificate ends, or finds it registered.
func newEnd(r prometheus.Registerer) (prometheus.Gauge, error) {
	end := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "fluence_webhook_certificate_end_seconds", Help: "When the webhook's certificate ends, in seconds since 1970; 0 where the program does not make it.",
	})
	err := r.Register(end)
	if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if there, ok := before.ExistingCollector.(prometheus.Gauge); ok {
			end, err = there, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register the end of the webhook's certificate: %w", err)
	}
	return end, nil
}

// newCount registers the count of objects that the webhook was asked about, or finds
// the one that is registered already.
func newCount(r prometheus.Registerer) (*prometheus.CounterVec, error) {
	objects := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fluence_webhook_objects_total", Help: "Objects that were created under the webhook, by how it left them.",
	}, []string{"outcome"})
	err := r.Register(objects)
	if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if there, ok := before.ExistingCollector.(*prometheus.CounterVec); ok {
			objects, err = there, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register the webhook's metric: %w", err)
	}
	for _, outcome := range []string{outcomeLabelled, outcomeUnchanged, outcomeUnreadable, outcomeBug} {
		objects.WithLabelValues(outcome)
	}
	return objects, nil
}

// count counts an object.
func (h *handler) count(outcome string) {
	if h.objects != nil {
		h.objects.WithLabelValues(outcome).Inc()
	}
}
