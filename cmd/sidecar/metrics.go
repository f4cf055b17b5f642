package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// A sizer is an engine that knows how many jobs hold something, how many slots they hold, how many
// nodes there are, and whether its graph is loaded. It answers without waiting for other calls.
type sizer interface {
	Sizes() (jobs, slots, nodes int, ready bool)
}

// A measured engine times the matches of an engine. It also
// reports how much the engine holds, if the engine is a sizer.
type measured struct {
	match.Engine
	duration *prometheus.HistogramVec
	panics   prometheus.Counter
	registry *prometheus.Registry
}

func measure(e match.Engine) *measured {
	m := &measured{
		Engine: e,
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "fluence_sidecar_match_duration_seconds",
			Help:    "Time that the engine took for one match, by outcome.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16), // 0.1 ms to 3.3 s
		}, []string{"outcome"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fluence_sidecar_panics_total", Help: "Calls that panicked; each may have lost the graph. It should stay 0.",
		}),
		registry: prometheus.NewRegistry(),
	}
	for _, o := range match.Outcomes() {
		m.duration.WithLabelValues(o) // so that a rise from 0 can be seen
	}
	m.registry.MustRegister(
		m.duration,
		m.panics,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	if knows, ok := e.(sizer); ok {
		m.registerSizes(knows)
	}
	return m
}

// registerSizes registers the metrics of how much an engine holds.
func (m *measured) registerSizes(of sizer) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fluence_sidecar_ready", Help: "1 while a graph is loaded and matches are answered.",
		}, func() float64 {
			if _, _, _, ready := of.Sizes(); ready {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fluence_sidecar_jobs", Help: "Jobs that hold resources.",
		}, func() float64 { jobs, _, _, _ := of.Sizes(); return float64(jobs) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fluence_sidecar_slots", Help: "Slots that jobs hold, one for each pod.",
		}, func() float64 { _, slots, _, _ := of.Sizes(); return float64(slots) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fluence_sidecar_nodes", Help: "Nodes in the resource graph.",
		}, func() float64 { _, _, nodes, _ := of.Sizes(); return float64(nodes) }),
	)
}

// served returns the measured engine. It is a match.GraphEngine if the engine itself is one.
func (m *measured) served() match.Engine {
	if g, ok := m.Engine.(match.GraphEngine); ok {
		return &measuredGraphs{m, g}
	}
	return m
}

// measuredGraphs is a measured engine that accepts graphs of any shape.
type measuredGraphs struct {
	*measured
	graphs match.GraphEngine
}

// AddSubgraph implements match.GraphEngine.
func (m *measuredGraphs) AddSubgraph(ctx context.Context, e match.Epoch, jgf []byte) error {
	return m.graphs.AddSubgraph(ctx, e, jgf)
}

// RemoveSubgraph implements match.GraphEngine.
func (m *measuredGraphs) RemoveSubgraph(ctx context.Context, e match.Epoch, path string) error {
	return m.graphs.RemoveSubgraph(ctx, e, path)
}

// Find implements match.GraphEngine.
func (m *measuredGraphs) Find(ctx context.Context, e match.Epoch, criteria string, now time.Time) (*resource.Set, error) {
	return m.graphs.Find(ctx, e, criteria, now)
}

// Match implements match.Engine.
func (m *measured) Match(ctx context.Context, r match.Request) (*match.Allocation, error) {
	start := time.Now()
	a, err := m.Engine.Match(ctx, r)
	m.duration.WithLabelValues(match.OutcomeOf(err)).Observe(time.Since(start).Seconds())
	return a, err
}

// prefix is the prefix of the names of this project's metrics. The scheduler
// gets only metrics with it, because they are served among the scheduler's own.
const prefix = "fluence_sidecar_"

// ofProcess are the metrics of any process that the scheduler gets, with prefix.
var ofProcess = []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"}

// told returns the metrics that the scheduler gets.
func (m *measured) told() ([]*dto.MetricFamily, error) {
	all, err := m.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather the metrics: %w", err)
	}
	var told []*dto.MetricFamily
	for _, f := range all {
		if slices.Contains(ofProcess, f.GetName()) {
			f.Name = new(prefix + f.GetName())
		}
		if strings.HasPrefix(f.GetName(), prefix) {
			told = append(told, f)
		}
	}
	return told, nil
}

// text returns these metrics in the text format of Prometheus.
func (m *measured) text() ([]byte, error) {
	families, err := m.told()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			return nil, fmt.Errorf("write the metrics: %w", err)
		}
	}
	return text.Bytes(), nil
}

func (m *measured) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return mux
}

// serveMetrics serves until ctx ends. It cuts off a scrape that is running then.
func serveMetrics(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
