// Package relay serves the metrics of another process among those of this process.
//
// It asks the other process every few seconds, not at each scrape. If the other process
// hangs, no scrape waits for it, and its metrics are left out until it answers again.
package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	// askEvery is the time between two requests.
	askEvery = 5 * time.Second
	// askTimeout bounds one request.
	askTimeout = time.Second
	// maxText is the size of the largest answer that is read, in bytes.
	maxText = 256 << 10
	// maxSeries is the largest number of series in an answer.
	maxSeries = 2000
)

// A Relay is a collector of another process's metrics. It has none until Run has read some.
type Relay struct {
	prefix string
	last   atomic.Pointer[[]*dto.MetricFamily]
}

// New returns a Relay of metrics whose names all begin with prefix, so
// that their names differ from the names of this process's metrics.
func New(prefix string) *Relay { return &Relay{prefix: prefix} }

// Run asks for metrics, in the text format of Prometheus, until ctx ends.
// It calls tell with the error of the first of several failures in a row.
func (r *Relay) Run(ctx context.Context, ask func(context.Context) ([]byte, error), tell func(error)) {
	defer r.last.Store(nil)
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for failed := false; ; {
		families, err := r.askOnce(ctx, ask)
		if err != nil && !failed && ctx.Err() == nil {
			tell(err)
		}
		failed = err != nil
		r.last.Store(&families)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (r *Relay) askOnce(ctx context.Context, ask func(context.Context) ([]byte, error)) ([]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	text, err := ask(ctx)
	if err != nil {
		return nil, err
	}
	return r.read(text)
}

// read reads an answer. It accepts all metrics or none, because a metric
// that cannot be gathered would make the whole scrape of this process fail.
func (r *Relay) read(text []byte) ([]*dto.MetricFamily, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("metrics: %d bytes, at most %d are allowed", len(text), maxText)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	byName, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	var families []*dto.MetricFamily
	series := 0
	for name, f := range byName {
		if !strings.HasPrefix(name, r.prefix) {
			return nil, fmt.Errorf("metrics: %q: the name does not begin with %q", name, r.prefix)
		}
		families = append(families, f)
		series += len(f.GetMetric())
	}
	if series > maxSeries {
		return nil, fmt.Errorf("metrics: %d series, of at most %d", series, maxSeries)
	}
	trial := prometheus.NewRegistry()
	if err := trial.Register(collected(families)); err != nil {
		return nil, fmt.Errorf("try the metrics: %w", err)
	}
	if _, err := trial.Gather(); err != nil {
		return nil, fmt.Errorf("try the metrics: %w", err)
	}
	return families, nil
}

// Describe implements prometheus.Collector. It describes
// nothing, because it is not known which metrics there will be.
func (r *Relay) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (r *Relay) Collect(to chan<- prometheus.Metric) {
	if families := r.last.Load(); families != nil {
		collected(*families).Collect(to)
	}
}

// collected is a collector of metrics that were read.
type collected []*dto.MetricFamily

func (collected) Describe(chan<- *prometheus.Desc) {}

func (c collected) Collect(to chan<- prometheus.Metric) {
	for _, f := range c {
		for _, m := range f.GetMetric() {
			labels := prometheus.Labels{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			to <- relayed{prometheus.NewDesc(f.GetName(), f.GetHelp(), nil, labels), m}
		}
	}
}

// relayed is one metric of the other process. It is written as it was read.
type relayed struct {
	desc *prometheus.Desc
	read *dto.Metric
}

// Desc implements prometheus.Metric.
func (m relayed) Desc() *prometheus.Desc { return m.desc }

// Write implements prometheus.Metric.
func (m relayed) Write(to *dto.Metric) error {
	if m.read.GetUntyped() != nil {
		return errors.New("a metric without a type")
	}
	to.Label, to.Gauge, to.Counter, to.Summary, to.Histogram = m.read.Label, m.read.Gauge, m.read.Counter, m.read.Summary, m.read.Histogram
	return nil
}
