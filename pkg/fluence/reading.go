package fluence

import (
	"sync/atomic"
	"time"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/gate"
	"github.com/flux-k8s/fluence/pkg/health"
	"github.com/flux-k8s/fluence/pkg/inventory"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
)

// figures say how the plugin is: metrics and the ConfigMap of package health read them.
type figures struct {
	*base
	asker    *asker
	turns    *turns
	binder   *binder
	bulletin *report.Status
	handover *handover
	teller   *teller
	// drifted counts what the inventory found, and matchedAt is when the last match gave
	// out room, in nanoseconds of Unix; 0 is never.
	drifted   atomic.Int64
	matchedAt atomic.Int64
	// leads says whether this scheduler led when it was last asked.
	leads atomic.Bool
	// skewed says that the API server is of a version that this build is not made for.
	skewed atomic.Bool
}

// publishFigures builds what writes the figures, and what hands over to a standby by them.
func (f *figures) publishFigures(leading func() bool, as Identity) {
	f.bulletin = &report.Status{
		Client: f.handle.ClientSet(), Namespace: f.args.StatusNamespace, Leading: leading,
		Figures: func() health.Figures { return f.read().figures(f, as) },
		Failed:  func() { f.counters.failed(writesHealth) },
	}
	f.handover = newHandover(f.handle.ClientSet(), f.args.StatusNamespace, as.Name)
	f.handover.leading, f.handover.silent = leading, f.breaker.silentFor
	f.handover.well = func() bool { return f.notReady() == "" }
	f.handover.failed = func() { f.counters.failed(writesHealth) }
}

// A reading is what the plugin knows at one moment, for those who look on.
type reading struct {
	gang.Census
	// longest is how long the group has waited that has waited longest.
	longest time.Duration
	// others is how many pods hold room that no group of the profile has.
	others int
	nodes  int
	epoch  match.Epoch
	// leads says that this scheduler leads, or did a few seconds ago.
	leads bool
	// answers says that the matcher does.
	answers bool
	// returns is how much is to be given back to the matcher.
	returns int
	// reserving is how many groups have nodes reserved for them, and reserved how many nodes
	// are by namespace.
	reserving int
	reserved  map[string]int
	// gate is how it stands at the gate, and events how many wait to be sent.
	gate   gate.Figures
	events int
	// skewed says that the API server is of a version that this build is not made for.
	skewed bool
	// standbys is what is known of those who could lead.
	standbys seenStandbys
}

// notAnswered is what a group waits for that is complete and has yet to be answered.
const notAnswered = "Queued"

// read looks at everything once. It calls nothing that could block, nor asks whether
// this scheduler leads: that is read from metrics, of which this is a part.
func (f *figures) read() reading {
	r := reading{
		Census: f.groups.Census(), others: f.running.others(f.profile),
		leads: f.leads.Load(), skewed: f.skewed.Load(),
		nodes: f.inventory.Nodes(), epoch: f.inventory.Epoch(), returns: f.asker.returns.pending(),
	}
	r.gate, r.events = f.binder.binds.Figures(), f.teller.events.Waiting()
	r.standbys = f.handover.standbys()
	unready := f.notReady() != ""
	open, _ := f.breaker.state()
	r.answers = !open
	r.reserving, r.reserved = f.turns.reservations.reserved()
	if !r.Longest.IsZero() {
		r.longest = f.now().Sub(r.Longest)
	}
	if turn := min(r.Waiting[""], r.gate.Waiting[gate.Small]+r.gate.Waiting[gate.Large]); turn > 0 && !unready {
		r.Waiting[""] -= turn
		r.Waiting[reason.Binding] += turn
	}
	if n := r.Waiting[""]; n > 0 {
		delete(r.Waiting, "")
		why := notAnswered
		if unready {
			why = reason.MatcherUnavailable
		}
		r.Waiting[why] += n
	}
	return r
}

// figures is a reading in the words of package health.
func (r reading) figures(from *figures, as Identity) health.Figures {
	f := health.Figures{
		Epoch: uint64(r.epoch), Nodes: r.nodes,
		GroupsByPhase: map[string]int{}, WaitingByReason: r.Waiting,
		Allocations: r.Tentative + r.Held, Drift: from.drifted.Load(), MatcherAnswers: r.answers,
		Leader: as.Name, Version: as.Version,
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
func (f *figures) onDrift(d inventory.Drift) {
	f.drifted.Add(1)
	f.counters.drift.WithLabelValues(string(d.Kind)).Inc()
}
