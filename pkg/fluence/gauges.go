package fluence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/flux-k8s/fluence/pkg/bindqueue"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// gauges is a collector of metrics. At each scrape it reads the state of this process's plugin.
type gauges struct {
	metrics.BaseStableCollector
	entries []gauge
	// plugin is the plugin to read; nil if there is none.
	plugin atomic.Pointer[Fluence]

	// mu guards the fields below: the last snapshot, its plugin and its time.
	mu         sync.Mutex
	last       snapshot
	lastPlugin *Fluence
	lastTaken  time.Time
}

// snapshotEvery is the minimum time between two snapshots. The scheduler itself gathers
// all metrics more often than anything scrapes them, to find out whether it leads.
const snapshotEvery = 5 * time.Second

// latest returns the last snapshot, or a new one if the last is older than snapshotEvery.
func (g *gauges) latest(pl *Fluence) snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := pl.now(); g.lastPlugin != pl || now.Sub(g.lastTaken) >= snapshotEvery {
		g.last, g.lastPlugin, g.lastTaken = pl.takeSnapshot(), pl, now
	}
	return g.last
}

// gauge is one metric.
type gauge struct {
	desc *metrics.Desc
	// collect calls emit once for each value, with the value of the label if the metric has one.
	collect func(r snapshot, emit func(v float64, label ...string))
	// alsoOnStandby means that standbys expose the gauge too. Gauges about groups are exposed
	// by the leader only: a standby places no group, and would report all of them as waiting.
	alsoOnStandby bool
}

// serveGauges registers the gauges once for each process, and lets them read pl until ctx ends.
func serveGauges(ctx context.Context, pl *Fluence) error {
	g := newGauges()
	err := legacyregistry.CustomRegister(g)
	if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if g, ok = before.ExistingCollector.(*gauges); ok {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("register the gauges: %w", err)
	}
	g.plugin.Store(pl)
	context.AfterFunc(ctx, func() { g.plugin.CompareAndSwap(pl, nil) })
	return nil
}

// newGauges returns the gauges without a plugin.
func newGauges() *gauges {
	g := &gauges{}
	g.addGroups()
	g.addBinds()
	all := func(name, help string, value func(r snapshot) float64) {
		g.plain(name, help, value)
		g.entries[len(g.entries)-1].alsoOnStandby = true
	}
	all("fluence_api_server_version_skew", "1 while the API server is of a version that this build is not made for.", func(r snapshot) float64 { return boolToFloat(r.unsupportedAPIServer) })
	all("fluence_graph_nodes", "Nodes that the matcher's graph has or is to get.", func(r snapshot) float64 { return float64(r.nodes) })
	all("fluence_graph_loaded", "1 while the matcher's graph is complete and groups can be placed.", func(r snapshot) float64 { return boolToFloat(r.epoch != 0) })
	all("fluence_leading", "1 while this scheduler leads; it may be a few seconds behind.", func(r snapshot) float64 { return boolToFloat(r.leads) })
	all("fluence_matcher_up", "1 while the matcher answers.", func(r snapshot) float64 { return boolToFloat(r.answers) })
	all("fluence_releases_pending", "Releases of allocations that the matcher has not confirmed yet.", func(r snapshot) float64 { return float64(r.pendingReleases) })
	return g
}

// addGroups adds the gauges that only the leader exposes.
func (g *gauges) addGroups() {
	g.add("fluence_groups", "Groups by phase, lone pods among them.", func(r snapshot, emit func(float64, ...string)) {
		for _, p := range gang.Phases() {
			emit(float64(r.Phases[p]), string(p))
		}
	}, "phase")
	g.add("fluence_groups_waiting", "Groups that wait, by the reason of their last refusal.", func(r snapshot, emit func(float64, ...string)) {
		for _, why := range append(reason.Waiting(), stateUnanswered) {
			emit(float64(r.WaitingByReason[why]), why)
		}
	}, "reason")
	g.plain("fluence_longest_wait_seconds", "Time since the group that has waited longest was complete; 0 if none waits.", func(r snapshot) float64 { return r.longestWait.Seconds() })
	g.add("fluence_allocations", "Pods with room on nodes: tentative (assigned, not bound yet), held (pods of this scheduler on nodes), others (pods of other schedulers).", func(r snapshot, emit func(float64, ...string)) {
		emit(float64(r.TentativePods), "tentative")
		emit(float64(r.HeldPods), "held")
		emit(float64(r.otherSchedulerPods), "others")
	}, "state")
	g.plain("fluence_groups_with_reservation", "Groups that have waited longer than maxBypass, with nodes that are reserved for them.", func(r snapshot) float64 { return float64(r.reservingGroups) })
	g.plain("fluence_oldest_eviction_age_seconds", "Time since the oldest plan was made some of whose victims have not gone; 0 if there is none.", func(r snapshot) float64 { return r.oldestEviction.Seconds() })
	g.add("fluence_healthy_standbys", "Standbys that lately reported that their matcher answers.", func(r snapshot, emit func(float64, ...string)) {
		if r.standbys.read {
			emit(float64(r.standbys.healthy))
		}
	})
	g.plain("fluence_last_handover_timestamp_seconds", "Unix time when a leader last gave up its lease because its matcher did not answer; 0 if none is known.", func(r snapshot) float64 {
		if r.standbys.lastHandover.IsZero() {
			return 0
		}
		return float64(r.standbys.lastHandover.Unix())
	})
	g.byNamespace("fluence_reserved_nodes", "Nodes reserved for groups, by namespace; a namespace without any is left out.", func(r snapshot) map[string]int { return r.reservedNodes })
	g.byNamespace("fluence_seats_held", "Pods that do not exist yet, and for which room is held, by namespace; a namespace without any is left out.", func(r snapshot) map[string]int { return r.Seats })
}

// addBinds adds the gauges about binds and events, which only the leader exposes.
func (g *gauges) addBinds() {
	g.plain("fluence_binds_in_flight", "Binds that were sent to the API server and not answered yet.", func(r snapshot) float64 { return float64(r.bindQueue.InFlight) })
	g.plain("fluence_binds_in_flight_limit", "Limit of the binds in flight: maxBinds, or less after the API server throttled binds.", func(r snapshot) float64 { return float64(r.bindQueue.Limit) })
	byLane := func(name, help string, of func(bindqueue.Snapshot) [2]int) {
		g.add(name, help, func(r snapshot, emit func(float64, ...string)) {
			for _, l := range bindqueue.Lanes() {
				emit(float64(of(r.bindQueue)[l]), l.String())
			}
		}, "lane")
	}
	byLane("fluence_bind_queue_pods", "Pods that have nodes and wait to be bound, by the lane of their group.", func(f bindqueue.Snapshot) [2]int { return f.Pods })
	byLane("fluence_groups_awaiting_admission", "Groups that wait to be admitted, because pods of earlier groups are bound first, by lane.", func(f bindqueue.Snapshot) [2]int { return f.Groups })
	g.plain("fluence_events_waiting", "Events that wait to be sent, after binds and conditions.", func(r snapshot) float64 { return float64(r.events) })
}

// add adds a metric with any number of values.
func (g *gauges) add(name, help string, read func(r snapshot, emit func(float64, ...string)), labels ...string) {
	g.entries = append(g.entries, gauge{desc: metrics.NewDesc(name, help, labels, nil, metrics.ALPHA, ""), collect: read})
}

// byNamespace adds a metric with a value for each namespace that read returns.
func (g *gauges) byNamespace(name, help string, read func(r snapshot) map[string]int) {
	g.add(name, help, func(r snapshot, emit func(float64, ...string)) {
		values := read(r)
		if len(values) == 0 {
			emit(0, "") // without a namespace, so that the metric exists
		}
		for namespace, n := range values {
			emit(float64(n), namespace)
		}
	}, "namespace")
}

// plain adds a metric with one value and no label.
func (g *gauges) plain(name, help string, value func(r snapshot) float64) {
	g.add(name, help, func(r snapshot, emit func(float64, ...string)) { emit(value(r)) })
}

// boolToFloat returns 1 for true and 0 for false.
func boolToFloat(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// DescribeWithStability implements metrics.StableCollector.
func (g *gauges) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, m := range g.entries {
		ch <- m.desc
	}
}

// CollectWithStability implements metrics.StableCollector.
func (g *gauges) CollectWithStability(ch chan<- metrics.Metric) {
	pl := g.plugin.Load()
	if pl == nil {
		return
	}
	r := g.latest(pl)
	for _, m := range g.entries {
		if !r.leads && !m.alsoOnStandby {
			continue
		}
		m.collect(r, func(v float64, label ...string) {
			ch <- metrics.NewLazyConstMetric(m.desc, metrics.GaugeValue, v, label...)
		})
	}
}
