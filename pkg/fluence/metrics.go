package fluence

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/reason"
)

// counters are the metrics that count events. kube-scheduler serves them
// with its own at /metrics. gauges has the metrics of the current state.
type counters struct {
	matcherCounters
	groupCounters
	writeCounters
}

// matcherCounters count what happens to the matcher and its graph.
type matcherCounters struct {
	drift        *metrics.CounterVec
	auditedNodes *metrics.Counter
	audits       *metrics.Counter
	graphLoads   *metrics.Counter
	outages      *metrics.Counter
	matches      *metrics.HistogramVec
}

// groupCounters count what happens to groups.
type groupCounters struct {
	attempts          *metrics.HistogramVec
	groupWaits        *metrics.Histogram
	refusals          *metrics.CounterVec
	placementsRevoked *metrics.Counter
	verifications     *metrics.CounterVec
	rematches         *metrics.Counter
	overrun           *metrics.CounterVec
	failedTime        *metrics.CounterVec
	seatsTaken        *metrics.CounterVec
	seatsWasted       *metrics.CounterVec
	preemptions       *metrics.CounterVec
	victims           *metrics.CounterVec
}

// writeCounters count what is sent to the API server.
type writeCounters struct {
	failedWrites    *metrics.CounterVec
	writesThrottled *metrics.CounterVec
	bindsCanceled   *metrics.Counter
	bindWaits       *metrics.Histogram
	eventsDropped   *metrics.Counter
}

// These are the values of the label outcome: how a
// placement attempt ends, and how a verification ends.
const (
	outcomeMatched  = "matched"
	outcomeRefused  = "refused"
	outcomePassed   = "passed"
	outcomeRejected = "rejected"
)

// These are the values of the label object: what a write to the API server was for.
const (
	writesPodGroup  = "podgroup"
	writesPod       = "pod"
	writesConfigMap = "health"
	writesBinding   = "binding"
	writesEvent     = "event"
	writesEviction  = "eviction"
)

// These are the values of the label kind: what was evicted.
const (
	victimGroup = "group"
	victimPod   = "pod"
)

// newCounters registers the metrics. If the process has registered them before,
// newCounters reuses them: the metrics belong to the process, not to one scheduler.
func newCounters() (*counters, error) {
	c := &counters{}
	var errs []error
	counter := func(to **metrics.Counter, name, help string) {
		var err error
		*to, err = registerMetric(metrics.NewCounter(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}))
		errs = append(errs, err)
	}
	vector := func(to **metrics.CounterVec, name, help, label string, values []string) {
		var err error
		*to, err = registerMetric(metrics.NewCounterVec(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, []string{label}))
		errs = append(errs, err)
		for _, v := range values {
			(*to).WithLabelValues(v).Add(0) // so that the first increase is visible
		}
	}
	timer := func(to **metrics.HistogramVec, name, help string, outcomes []string) {
		var err error
		*to, err = registerMetric(metrics.NewHistogramVec(&metrics.HistogramOpts{
			Name: name, Help: help, StabilityLevel: metrics.ALPHA,
			Buckets: metrics.ExponentialBuckets(0.0005, 2, 17), // 0.5 ms to 33 s, above the longest matchTimeout
		}, []string{"outcome"}))
		errs = append(errs, err)
		for _, v := range outcomes {
			(*to).WithLabelValues(v)
		}
	}
	vector(&c.drift, "fluence_drift_total", "Differences between the matcher's graph and the cluster that lasted, by kind. Each was logged and repaired; 0 is expected.", "kind", texts(inventory.DriftKinds()))
	counter(&c.auditedNodes, "fluence_audited_nodes_total", "Nodes of the matcher's graph that were compared with the cluster.")
	counter(&c.audits, "fluence_audits_total", "How often the whole graph was compared with the cluster.")
	counter(&c.graphLoads, "fluence_graph_loads_total", "How often the matcher's graph was loaded: once at the start, and each time after it was lost.")
	counter(&c.outages, "fluence_matcher_outages_total", "How often the matcher was found not to answer, also before it first did.")
	timer(&c.matches, "fluence_match_duration_seconds", "Time that one match took as the scheduler sees it, by how it ended.", match.Outcomes())
	timer(&c.attempts, "fluence_placement_attempt_duration_seconds", "Time that it took to place a group, or to refuse it: filters, matches and verification.", []string{outcomeMatched, outcomeRefused})
	vector(&c.refusals, "fluence_refusals_total", "Refusals of groups, by reason.", "reason", reason.Waiting())
	counter(&c.placementsRevoked, "fluence_assignments_revoked_total", "How often a group, or a member of a started one, lost the nodes that it was matched to.")
	vector(&c.verifications, "fluence_verifications_total", "Matches that the filters checked pod by pod before they were committed, by outcome.", "outcome", []string{outcomePassed, outcomeRejected, outcomeRefused})
	counter(&c.rematches, "fluence_rematches_total", "Matches that were repeated because the filters rejected the one before.")
	vector(&c.failedWrites, "fluence_failed_writes_total", "Writes to the API server that failed, by object. Events and throttled writes are left out.", "object", []string{writesPodGroup, writesPod, writesConfigMap, writesBinding, writesEviction})
	vector(&c.writesThrottled, "fluence_writes_throttled_total", "Writes that the API server throttled (429, or 503 with Retry-After), by object.", "object", []string{writesBinding, writesEvent, writesEviction})
	vector(&c.overrun, "fluence_namespace_overrun_seconds_total", "Time that attempts to place a namespace's groups took beyond what is free. Groups of a namespace in debt are placed after others.", "namespace", []string{""}) // without a namespace, so that the metric exists
	vector(&c.failedTime, "fluence_namespace_failed_attempt_seconds_total", "Time of attempts to place a namespace's groups that found no nodes, of each attempt up to what is free, while it was more than a fifth of the time. Such groups are placed after others whose priority is not lower.", "namespace", []string{""})
	vector(&c.seatsTaken, "fluence_seats_taken_total", "Pods that got the room that was held for them before they existed.", "namespace", []string{""})
	vector(&c.seatsWasted, "fluence_seats_wasted_total", "Pods that did not come, or not in time, to the room that was held for them. The next groups of the namespace get none.", "namespace", []string{""})
	vector(&c.preemptions, "fluence_preemptions_total", "Plans to evict others for a group, by outcome.", "outcome", texts(eviction.Outcomes()))
	vector(&c.victims, "fluence_preemption_victims_total", "Groups, and pods of groups or alone, that were evicted for a group of a higher priority, by kind.", "kind", []string{victimGroup, victimPod})
	counter(&c.bindsCanceled, "fluence_binds_canceled_total", "Pods that left the bind queue unbound, because their node or their group had changed.")
	counter(&c.eventsDropped, "fluence_events_dropped_total", "Events that were never sent: too many waited, or the API server rejected them.")
	buckets := []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	var failed error
	c.bindWaits, failed = registerMetric(metrics.NewHistogram(&metrics.HistogramOpts{
		Name: "fluence_bind_queue_wait_seconds", StabilityLevel: metrics.ALPHA, Buckets: buckets,
		Help: "Time that a pod waited in the bind queue before its bind was sent, once for each time it waited.",
	}))
	errs = append(errs, failed)
	var err error
	c.groupWaits, err = registerMetric(metrics.NewHistogram(&metrics.HistogramOpts{
		Name: "fluence_group_wait_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "Time from when a group was complete until its first bind was sent.",
		Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600},
	}))
	return c, errors.Join(append(errs, err)...)
}

// registerMetric registers a metric. It returns the registered one if there is one already.
func registerMetric[M metrics.Registerable](m M) (M, error) {
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

// texts converts a list of a string type to strings.
func texts[T ~string](all []T) []string {
	values := make([]string, len(all))
	for i, v := range all {
		values[i] = string(v)
	}
	return values
}

// onAudit counts the nodes that the inventory has compared.
// round means that the whole graph has been compared.
func (c *counters) onAudit(nodes int, round bool) {
	c.auditedNodes.Add(float64(nodes))
	if round {
		c.audits.Inc()
	}
}

// countAttempt counts a placement attempt.
func (c *counters) countAttempt(refused *gang.Refusal, took time.Duration) {
	outcome := outcomeMatched
	if refused != nil {
		outcome = outcomeRefused
	}
	c.attempts.WithLabelValues(outcome).Observe(took.Seconds())
}

// countPlacement counts the verifications and repeated matches of a placement.
func (c *counters) countPlacement(s placement.Stats) {
	for outcome, n := range map[string]int{outcomePassed: s.Passed, outcomeRejected: s.Rejected, outcomeRefused: s.Refused} {
		c.verifications.WithLabelValues(outcome).Add(float64(n))
	}
	c.rematches.Add(float64(s.Repairs))
}

// countFailedWrite counts a write that failed.
func (c *counters) countFailedWrite(object string) { c.failedWrites.WithLabelValues(object).Inc() }

// countFailedEviction counts a request of an eviction that failed.
func (c *counters) countFailedEviction(busy bool) {
	if busy {
		c.writesThrottled.WithLabelValues(writesEviction).Inc()
	} else {
		c.countFailedWrite(writesEviction)
	}
}

// countEviction counts what became of a plan, or a victim whose pods begin to end. What an earlier process has
// begun is counted there.
func (c *counters) countEviction(is eviction.Change) {
	switch v := is.Victim; {
	case is.Outcome != "":
		c.preemptions.WithLabelValues(string(is.Outcome)).Inc()
	case v.State == eviction.Ending && !is.Resumed:
		c.victims.WithLabelValues(victimPod).Add(float64(len(v.Pods)))
		if v.Kind != preemption.Pod {
			c.victims.WithLabelValues(victimGroup).Inc()
		}
	}
}

// countOverrun counts the time of an attempt beyond what is free.
// The series of a namespace begins with its first such time.
func (c *counters) countOverrun(namespace string, over time.Duration) {
	if over > 0 {
		c.overrun.WithLabelValues(namespace).Add(over.Seconds())
	}
}

// countFailedTime counts the time of failed attempts beyond
// what they may take. The series begin as in countOverrun.
func (c *counters) countFailedTime(namespace string, over time.Duration) {
	if over > 0 {
		c.failedTime.WithLabelValues(namespace).Add(over.Seconds())
	}
}

// forget drops the series of a namespace.
func (c *counters) forget(namespace string) {
	for _, v := range []*metrics.CounterVec{c.overrun, c.failedTime, c.seatsTaken, c.seatsWasted} {
		v.Delete(map[string]string{"namespace": namespace})
	}
}
