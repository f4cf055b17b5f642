package fluence

import (
	"time"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/gate"
	"github.com/flux-k8s/fluence/pkg/health"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/reason"
)

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
func (pl *Fluence) read() reading {
	r := reading{
		Census: pl.groups.Census(), others: pl.running.others(pl.profile),
		leads: pl.leads.Load(), skewed: pl.skewed.Load(),
		nodes: pl.inventory.Nodes(), epoch: pl.inventory.Epoch(), returns: pl.returns.pending(),
	}
	r.gate, r.events = pl.binds.Figures(), pl.events.Waiting()
	r.standbys = pl.handover.standbys()
	unready := pl.notReady() != ""
	open, _ := pl.breaker.state()
	r.answers = !open
	r.reserving, r.reserved = pl.reservations.reserved()
	if !r.Longest.IsZero() {
		r.longest = pl.now().Sub(r.Longest)
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
func (r reading) figures(pl *Fluence, as Identity) health.Figures {
	f := health.Figures{
		Epoch: uint64(r.epoch), Nodes: r.nodes,
		GroupsByPhase: map[string]int{}, WaitingByReason: r.Waiting,
		Allocations: r.Tentative + r.Held, Drift: pl.drifted.Load(), MatcherAnswers: r.answers,
		Leader: as.Name, Version: as.Version,
	}
	for _, p := range gang.Phases() {
		if n := r.Phases[p]; n > 0 {
			f.GroupsByPhase[string(p)] = n
		}
	}
	if at := pl.matchedAt.Load(); at != 0 {
		matched := time.Unix(0, at).UTC().Truncate(time.Second)
		f.LastMatch = &matched
	}
	return f
}
