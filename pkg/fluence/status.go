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
)

// status say how the plugin is: metrics and the ConfigMap of package health read them.
type status struct {
	*base
	groupPlacer   *groupPlacer
	reserver      *reserver
	binder        *binder
	statusWriter  *report.ConfigMapWriter
	handover      *handover
	groupReporter *groupReporter
	// drifted counts what the inventory found, and matchedAt is when the last match gave
	// out room, in nanoseconds of Unix; 0 is never.
	drifted   atomic.Int64
	matchedAt atomic.Int64
	// leads says whether this scheduler led when it was last asked.
	leads atomic.Bool
	// skewed says that the API server is of a version that this build is not made for.
	skewed atomic.Bool
}

// initStatus builds what writes the figures, and what hands over to a standby by them.
func (f *status) initStatus(leading func() bool, identity Identity) {
	f.statusWriter = &report.ConfigMapWriter{
		Client: f.handle.ClientSet(), Namespace: f.args.StatusNamespace, Leading: leading,
		Snapshot: func() statusmap.Status { return f.takeSnapshot().toStatus(f, identity) },
		Failed:   func() { f.counters.countFailedWrite(writesHealth) },
	}
	f.handover = newHandover(f.handle.ClientSet(), f.args.StatusNamespace, identity.Name)
	f.handover.leading, f.handover.silentFor = leading, f.breaker.silentFor
	f.handover.ready = func() bool { return f.whyNotReady() == "" }
	f.handover.failed = func() { f.counters.countFailedWrite(writesHealth) }
}

// A reading is what the plugin knows at one moment, for those who look on.
type snapshot struct {
	gang.Stats
	// longestWait is how long the group has waited that has waited longest.
	longestWait time.Duration
	// others is how many pods hold room that no group of the profile has.
	others int
	nodes  int
	epoch  match.Epoch
	// leads says that this scheduler leads, or did a few seconds ago.
	leads bool
	// answers says that the matcher does.
	answers bool
	// pendingReleases is how much is to be given back to the matcher.
	pendingReleases int
	// reservingGroups is how many groups have nodes reserved for them, and reserved how many nodes
	// are by namespace.
	reservingGroups int
	reservedNodes   map[string]int
	// bindQueue is how it stands at the gate, and events how many wait to be sent.
	bindQueue bindqueue.Snapshot
	events    int
	// skewed says that the API server is of a version that this build is not made for.
	skewed bool
	// standbys is what is known of those who could lead.
	standbys standbySnapshot
}

// stateQueued is what a group waits for that is complete and has yet to be answered.
const stateQueued = "Queued"

// takeSnapshot looks at everything once. It calls nothing that could block, nor asks whether
// this scheduler leads: that is read from metrics, of which this is a part.
func (f *status) takeSnapshot() snapshot {
	r := snapshot{
		Stats: f.groups.Stats(), others: f.occupants.countOtherSchedulers(f.profile),
		leads: f.leads.Load(), skewed: f.skewed.Load(),
		nodes: f.inventory.Nodes(), epoch: f.inventory.Epoch(), pendingReleases: f.groupPlacer.releases.pending(),
	}
	r.bindQueue, r.events = f.binder.bindQueue.Snapshot(), f.groupReporter.events.Waiting()
	r.standbys = f.handover.standbys()
	unready := f.whyNotReady() != ""
	open, _ := f.breaker.state()
	r.answers = !open
	r.reservingGroups, r.reservedNodes = f.reserver.reservations.count()
	if !r.LongestSince.IsZero() {
		r.longestWait = f.now().Sub(r.LongestSince)
	}
	if turn := min(r.WaitingByReason[""], r.bindQueue.Groups[bindqueue.Small]+r.bindQueue.Groups[bindqueue.Large]); turn > 0 && !unready {
		r.WaitingByReason[""] -= turn
		r.WaitingByReason[reason.Binding] += turn
	}
	if n := r.WaitingByReason[""]; n > 0 {
		delete(r.WaitingByReason, "")
		why := stateQueued
		if unready {
			why = reason.MatcherUnavailable
		}
		r.WaitingByReason[why] += n
	}
	return r
}

// toStatus is a reading in the words of package health.
func (r snapshot) toStatus(from *status, identity Identity) statusmap.Status {
	f := statusmap.Status{
		Epoch: uint64(r.epoch), Nodes: r.nodes,
		GroupsByPhase: map[string]int{}, WaitingByReason: r.WaitingByReason,
		PodsWithRoom: r.Tentative + r.Held, Drift: from.drifted.Load(), MatcherAnswers: r.answers,
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

// onDrift counts a difference between the engine and the cluster that the inventory found.
func (f *status) onDrift(d inventory.Drift) {
	f.drifted.Add(1)
	f.counters.drift.WithLabelValues(string(d.Kind)).Inc()
}
