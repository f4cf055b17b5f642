package fluence

import (
	"sync/atomic"
	"time"

	"github.com/flux-k8s/fluence/pkg/bindqueue"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/statusmap"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// stateCollector collects the state of the plugin for metrics and for the status ConfigMap.
type stateCollector struct {
	*base
	groupPlacer   *groupPlacer
	reserver      *reserver
	binder        *binder
	statusWriter  *report.ConfigMapWriter
	handover      *handover
	groupReporter *groupReporter
	// drifted counts the differences that the inventory found.
	drifted atomic.Int64
	// matchedAt is the time of the last successful
	// allocation, in Unix nanoseconds; 0 if there was none.
	matchedAt atomic.Int64
	// leads reports whether this scheduler led when that was last checked.
	leads atomic.Bool
	// unsupportedAPIServer reports whether this build does not support the version of the API server.
	unsupportedAPIServer atomic.Bool
}

// initStatus builds the writer of the status ConfigMap and the handover.
func (f *stateCollector) initStatus(leading func() bool, identity ProcessIdentity) {
	f.statusWriter = &report.ConfigMapWriter{
		Client: f.handle.ClientSet(), Namespace: f.args.StatusNamespace, Leading: leading,
		Snapshot:  func() statusmap.Status { return f.takeSnapshot().toStatus(f, identity) },
		Readiness: f.matcherReadiness,
		Failed:    func() { f.counters.countFailedWrite(writesConfigMap) },
	}
	f.handover = newHandover(f.handle.ClientSet(), f.args.StatusNamespace, identity.Name)
	f.handover.leading, f.handover.silentFor = leading, f.breaker.silentFor
	f.handover.ready = func() bool { return f.whyNotReady() == "" }
	f.handover.failed = func() { f.counters.countFailedWrite(writesConfigMap) }
}

// ages are how long the oldest of something has lasted. They are zero if there is none.
type ages struct {
	// longestWait is that of a group that waits. oldestEviction is that of a plan with a victim that has not gone.
	longestWait, oldestEviction time.Duration
}

// matcherReadiness returns what is written soon after a change.
func (f *stateCollector) matcherReadiness() report.Readiness {
	open, _ := f.breaker.state()
	return report.Readiness{
		Answers: !open, Places: f.whyNotReady() == "",
		Loaded: f.inventory.Epoch() != 0 && f.inventory.WhyNotLoaded() == "",
	}
}

// snapshot is the state of the plugin at one moment, for metrics and for the status ConfigMap.
type snapshot struct {
	gang.Stats
	ages
	// otherSchedulerPods is the number of pods of other schedulers that hold room.
	otherSchedulerPods int
	// nodes is the number of nodes that the matcher's graph has or is to get.
	nodes int
	// epoch is the epoch of the matcher's graph; 0 while the graph is being loaded.
	epoch match.Epoch
	// whyNotLoaded is what the matcher says why it does not load its graph; "" if it says nothing.
	whyNotLoaded string
	// leads reports whether this scheduler leads, or led a few seconds ago.
	leads bool
	// answers reports whether the matcher answers.
	answers bool
	// pendingReleases is the number of releases that the matcher has not confirmed.
	pendingReleases int
	// reservingGroups is the number of groups with reserved nodes.
	reservingGroups int
	// reservedNodes is the number of reserved nodes by namespace.
	reservedNodes map[string]int
	// bindQueue has the numbers of the bind queue.
	bindQueue bindqueue.Snapshot
	// events is the number of events that wait to be sent.
	events int
	// unsupportedAPIServer reports whether this build does not support the version of the API server.
	unsupportedAPIServer bool
	// standbys is what this scheduler, as leader, last read about standbys.
	standbys standbySnapshot
}

// stateUnanswered is the reason of a complete group that has been neither placed nor refused yet.
const stateUnanswered = "Unanswered"

// takeSnapshot returns the present state. It does not block. It does not check whether this
// scheduler leads, because that check gathers all metrics and would call takeSnapshot again.
func (f *stateCollector) takeSnapshot() snapshot {
	r := snapshot{
		Stats: f.groups.Stats(), otherSchedulerPods: f.occupants.countOtherSchedulers(f.profile),
		leads: f.leads.Load(), unsupportedAPIServer: f.unsupportedAPIServer.Load(),
		nodes: f.inventory.Nodes(), epoch: f.inventory.Epoch(), whyNotLoaded: f.inventory.WhyNotLoaded(), pendingReleases: f.groupPlacer.releases.pending(),
	}
	r.bindQueue, r.events = f.binder.bindQueue.Snapshot(), f.groupReporter.events.Waiting()
	r.standbys = f.handover.standbys()
	unready := f.whyNotReady() != ""
	open, _ := f.breaker.state()
	r.answers = !open
	r.reservingGroups, r.reservedNodes = f.reserver.reservations.count()
	if !r.OldestCompleteSince.IsZero() {
		r.longestWait = f.now().Sub(r.OldestCompleteSince)
	}
	for _, v := range f.evictor.Pending() {
		r.oldestEviction = max(r.oldestEviction, f.now().Sub(v.Accepted))
	}
	// A group without a reason counts as Binding if it waits for
	// admission, else as MatcherUnavailable or stateUnanswered.
	if turn := min(r.WaitingByReason[""], r.bindQueue.Groups[bindqueue.Small]+r.bindQueue.Groups[bindqueue.Large]); turn > 0 && !unready {
		r.WaitingByReason[""] -= turn
		r.WaitingByReason[reason.Binding] += turn
	}
	if n := r.WaitingByReason[""]; n > 0 {
		delete(r.WaitingByReason, "")
		why := stateUnanswered
		if unready {
			why = reason.MatcherUnavailable
		}
		r.WaitingByReason[why] += n
	}
	return r
}

// toStatus converts a snapshot to the form of package statusmap.
func (r snapshot) toStatus(from *stateCollector, identity ProcessIdentity) statusmap.Status {
	f := statusmap.Status{
		Epoch: uint64(r.epoch), WhyNotLoaded: translate.Shorten(r.whyNotLoaded), Nodes: r.nodes,
		GroupsByPhase: map[string]int{}, WaitingByReason: r.WaitingByReason,
		PodsWithRoom: r.TentativePods + r.HeldPods, Drift: from.drifted.Load(), MatcherAnswers: r.answers,
		Leader: identity.Name, Version: identity.Version,
	}
	for _, p := range gang.Phases() {
		if n := r.Phases[p]; n > 0 {
			f.GroupsByPhase[string(p)] = n
		}
	}
	if at := from.matchedAt.Load(); at != 0 {
		matched := time.Unix(0, at).UTC().Truncate(time.Second)
		f.LastMatch = &matched
	}
	return f
}

// onDrift counts a difference that the inventory found between the matcher's graph and the cluster.
func (f *stateCollector) onDrift(d inventory.Drift) {
	f.drifted.Add(1)
	f.counters.drift.WithLabelValues(string(d.Kind)).Inc()
}
