package admission

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	compmetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/flux-k8s/fluence/pkg/queue"
)

// metrics count what happens in queues. kube-scheduler serves them with its own at /metrics.
type metrics struct {
	jobs     *compmetrics.GaugeVec
	oldest   *compmetrics.GaugeVec
	passes   *compmetrics.Histogram
	admitted *compmetrics.CounterVec
	requeued *compmetrics.CounterVec
	failed   *compmetrics.CounterVec
}

// Values of the labels phase and kind.
const (
	phaseWaiting = "waiting"
	phaseRunning = "running"
	kindFluxJob  = "FluxJob"
	kindQueue    = "Queue"
)

func newMetrics() (*metrics, error) {
	m := &metrics{}
	var errs []error
	gauge := func(to **compmetrics.GaugeVec, name, help string, labels ...string) {
		var err error
		*to, err = register(compmetrics.NewGaugeVec(&compmetrics.GaugeOpts{Name: name, Help: help, StabilityLevel: compmetrics.ALPHA}, labels))
		errs = append(errs, err)
	}
	counter := func(to **compmetrics.CounterVec, name, help string, labels ...string) {
		var err error
		*to, err = register(compmetrics.NewCounterVec(&compmetrics.CounterOpts{Name: name, Help: help, StabilityLevel: compmetrics.ALPHA}, labels))
		errs = append(errs, err)
	}
	gauge(&m.jobs, "fluence_queue_jobs", "Jobs of a queue that wait for their turn, and that were admitted and have not ended, by phase.", "queue", "phase")
	gauge(&m.oldest, "fluence_queue_oldest_wait_seconds", "For how long the oldest job of a queue has waited; 0 if none waits.", "queue")
	counter(&m.admitted, "fluence_queue_admitted_total", "Jobs of a queue that were given nodes.", "queue")
	counter(&m.requeued, "fluence_queue_requeued_total", "Jobs of a queue that lost their nodes before they had started, or to others of higher priority.", "queue")
	counter(&m.failed, "fluence_queue_failed_writes_total", "Writes of FluxJobs and Queues that failed, by kind. Conflicts are left out: the object has changed, and is looked at again.", "kind")
	var err error
	m.passes, err = register(compmetrics.NewHistogram(&compmetrics.HistogramOpts{
		Name: "fluence_queue_pass_duration_seconds", Help: "Time that one pass over the jobs that may ask took, with their matches.",
		StabilityLevel: compmetrics.ALPHA, Buckets: compmetrics.ExponentialBuckets(0.0001, 2, 15), // to 1.6 s; a pass has 20 ms
	}))
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	// Without a queue, so that the metrics exist.
	m.queue("", queue.Summary{}, time.Time{})
	for _, v := range []*compmetrics.CounterVec{m.admitted, m.requeued} {
		v.WithLabelValues("")
	}
	for _, kind := range []string{kindFluxJob, kindQueue} {
		m.failed.WithLabelValues(kind)
	}
	return m, nil
}

// register registers a metric. It returns the registered one if there is one already.
func register[M compmetrics.Registerable](m M) (M, error) {
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

// pass counts a pass.
func (m *metrics) pass(took time.Duration) { m.passes.Observe(took.Seconds()) }

// queue sets what a queue has.
func (m *metrics) queue(name string, s queue.Summary, now time.Time) {
	m.jobs.WithLabelValues(name, phaseWaiting).Set(float64(s.Waiting))
	m.jobs.WithLabelValues(name, phaseRunning).Set(float64(s.Running))
	age := 0.0
	if !s.Oldest.IsZero() {
		age = max(0, now.Sub(s.Oldest).Seconds())
	}
	m.oldest.WithLabelValues(name).Set(age)
}

// forget drops the series of a queue that is gone.
func (m *metrics) forget(name string) {
	for _, phase := range []string{phaseWaiting, phaseRunning} {
		m.jobs.Delete(map[string]string{"queue": name, "phase": phase})
	}
	for _, v := range []interface{ Delete(map[string]string) bool }{m.oldest, m.admitted, m.requeued} {
		v.Delete(map[string]string{"queue": name})
	}
}
