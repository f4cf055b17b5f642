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

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/gate"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// gauges read the plugin of this process when somebody asks for its metrics.
type gauges struct {
	metrics.BaseStableCollector
	all []gauge
	// of is nil while there is no plugin.
	of atomic.Pointer[Fluence]

	mu   sync.Mutex
	last reading
	from *Fluence
	at   time.Time
}

// readEvery is the least time between two readings. The scheduler itself gathers all
// metrics more often than anybody scrapes them, to see whether it leads.
const readEvery = 5 * time.Second

// reading returns one that is new enough.
func (g *gauges) reading(pl *Fluence) reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := pl.now(); g.from != pl || now.Sub(g.at) >= readEvery {
		g.last, g.from, g.at = pl.read(), pl, now
	}
	return g.last
}

// A gauge is one metric: tell is called with each value and that of the label, if it
// has one.
type gauge struct {
	desc *metrics.Desc
	read func(r reading, tell func(v float64, label ...string))
	// byAll says that a standby tells it too. What it leaves to the leader is of
	// groups: a standby has asked for none, so that to it all wait unanswered.
	byAll bool
}

// observe has the gauges of this process read the plugin until ctx ends.
func observe(ctx context.Context, pl *Fluence) error {
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
	g.of.Store(pl)
	context.AfterFunc(ctx, func() { g.of.CompareAndSwap(pl, nil) })
	return nil
}

func newGauges() *gauges {
	g := &gauges{}
	g.addGroups()
	g.addGate()
	all := func(name, help string, value func(r reading) float64) {
		g.plain(name, help, value)
		g.all[len(g.all)-1].byAll = true
	}
	all("fluence_api_server_skew", "1 while the API server is of a version that this build is not made for.", func(r reading) float64 { return flag(r.skewed) })
	all("fluence_graph_nodes", "Nodes that the matcher's graph has or is to get.", func(r reading) float64 { return float64(r.nodes) })
	all("fluence_graph_loaded", "1 while the matcher's graph is complete and groups can be asked for.", func(r reading) float64 { return flag(r.epoch != 0) })
	all("fluence_leading", "1 while this scheduler leads; it may be a few seconds behind.", func(r reading) float64 { return flag(r.leads) })
	all("fluence_matcher_up", "1 while the matcher answers.", func(r reading) float64 { return flag(r.answers) })
	all("fluence_returns_pending", "Allocations that the matcher has yet to take back.", func(r reading) float64 { return float64(r.returns) })
	return g
}

// addGroups adds what only the leader tells.
func (g *gauges) addGroups() {
	g.add("fluence_groups", "Groups by phase, lone pods among them.", func(r reading, tell func(float64, ...string)) {
		for _, p := range gang.Phases() {
			tell(float64(r.Phases[p]), string(p))
		}
	}, "phase")
	g.add("fluence_groups_waiting", "Groups that wait, by the reason that they were given last.", func(r reading, tell func(float64, ...string)) {
		for _, why := range append(reason.Waiting(), notAnswered) {
			tell(float64(r.Waiting[why]), why)
		}
	}, "reason")
	g.plain("fluence_longest_wait_seconds", "For how long the group could have been asked for that has waited longest; 0 if none waits.", func(r reading) float64 { return r.longest.Seconds() })
	g.add("fluence_allocations", "Pods that are charged to nodes, by whose they are.", func(r reading, tell func(float64, ...string)) {
		tell(float64(r.Tentative), "tentative")
		tell(float64(r.Held), "held")
		tell(float64(r.others), "others")
	}, "state")
	g.plain("fluence_reserving_groups", "Groups that have waited longer than maxBypass, with nodes that are reserved for them.", func(r reading) float64 { return float64(r.reserving) })
	g.add("fluence_standbys", "Standbys that said lately that their matcher answers.", func(r reading, tell func(float64, ...string)) {
		if r.standbys.read {
			tell(float64(r.standbys.well))
		}
	})
	g.plain("fluence_handover_time_seconds", "When a leader last gave up its lease since its matcher was silent, in seconds since 1970; 0 if none is known of.", func(r reading) float64 {
		if r.standbys.last.IsZero() {
			return 0
		}
		return float64(r.standbys.last.Unix())
	})
	g.add("fluence_reserved_nodes", "Nodes that are reserved for groups of a namespace that has any.", func(r reading, tell func(float64, ...string)) {
		if len(r.reserved) == 0 {
			tell(0, "") // of none, for the metric to be there
		}
		for namespace, n := range r.reserved {
			tell(float64(n), namespace)
		}
	}, "namespace")
}

// addGate adds what is to be told of binds.
func (g *gauges) addGate() {
	g.plain("fluence_binds_in_flight", "Binds that were sent to the API server and not answered.", func(r reading) float64 { return float64(r.gate.InFlight) })
	g.plain("fluence_bind_limit", "How many binds may be in flight: maxBinds, or fewer after the API server had too many requests.", func(r reading) float64 { return float64(r.gate.Limit) })
	byLane := func(name, help string, of func(gate.Figures) [2]int) {
		g.add(name, help, func(r reading, tell func(float64, ...string)) {
			for _, l := range gate.Lanes() {
				tell(float64(of(r.gate)[l]), l.String())
			}
		}, "lane")
	}
	byLane("fluence_gate_pods", "Pods that have nodes and wait to be bound, by the lane of their group.", func(f gate.Figures) [2]int { return f.Standing })
	byLane("fluence_gate_groups", "Groups that wait for their turn to ask, since pods of others are to be bound first, by lane.", func(f gate.Figures) [2]int { return f.Waiting })
	g.plain("fluence_events_waiting", "Events that are to be sent behind binds and conditions.", func(r reading) float64 { return float64(r.events) })
}

func (g *gauges) add(name, help string, read func(r reading, tell func(float64, ...string)), labels ...string) {
	g.all = append(g.all, gauge{desc: metrics.NewDesc(name, help, labels, nil, metrics.ALPHA, ""), read: read})
}

func (g *gauges) plain(name, help string, value func(r reading) float64) {
	g.add(name, help, func(r reading, tell func(float64, ...string)) { tell(value(r)) })
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// DescribeWithStability implements metrics.StableCollector.
func (g *gauges) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, m := range g.all {
		ch <- m.desc
	}
}

// CollectWithStability implements metrics.StableCollector.
func (g *gauges) CollectWithStability(ch chan<- metrics.Metric) {
	pl := g.of.Load()
	if pl == nil {
		return
	}
	r := g.reading(pl)
	for _, m := range g.all {
		if !r.leads && !m.byAll {
			continue
		}
		m.read(r, func(v float64, label ...string) {
			ch <- metrics.NewLazyConstMetric(m.desc, metrics.GaugeValue, v, label...)
		})
	}
}
