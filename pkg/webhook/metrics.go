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
