package fluence

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/report"
)

// Each change of a group is one line of the log at V(2),
// with the same keys wherever the change is found out.

// logRefusal logs a refusal at V(2) if its reason or
// text is new, and at V(4) if only numbers have changed.
func (tl *groupReporter) logRefusal(key types.NamespacedName, reason, message string) {
	level := 4
	if tl.logged.update(key, reason+"\n"+message) {
		level = 2
	}
	tl.log.V(level).Info("Group refused", "group", key, "reason", reason, "message", message)
}

// logTransition logs and counts a change of a group's state. The change says whether evictions for the group have helped.
func (tl *groupReporter) logTransition(t gang.Transition) {
	log := tl.log.V(2)
	switch t.Type {
	case gang.Started:
		waited := tl.now().Sub(t.CompleteSince)
		log.Info("Group started", "group", t.Key, "job", t.Job, "pods", t.Pods, "waited", waited.Round(time.Millisecond))
		tl.counters.groupWaits.Observe(waited.Seconds())
		tl.endPlans(tl.preemptions.started(t.Key), eviction.Started)
	case gang.Revoked:
		log.Info("Group lost its nodes", "group", t.Key, "job", t.Job, "pods", t.Pods, "reason", t.Reason)
		tl.counters.placementsRevoked.Inc()
		tl.loseNodes(t, eviction.Unhelpful)
	case gang.SeatsGivenBack:
		log.Info("Group gave back seats", "group", t.Key, "seats", t.Pods, "reason", t.Reason)
	case gang.Ended:
		tl.logged.forget(t.Key)
		log.Info("Group ended", "group", t.Key)
	}
}

// abandonPlans counts the plans as abandoned whose groups lose their nodes, because a pod or the PodGroup goes. Call it
// before the changes are logged: such a plan would count as unhelpful then.
func (tl *groupReporter) abandonPlans(out gang.Output) {
	for _, t := range out.Transitions {
		if t.Type == gang.Revoked {
			tl.loseNodes(t, eviction.Abandoned)
		}
	}
}

// loseNodes says what has become of the plans for a group that loses its nodes.
func (tl *groupReporter) loseNodes(t gang.Transition, o eviction.Outcome) {
	tl.endPlans(tl.preemptions.loseNodes(t.Key, o, tl.now()), o)
}

// reportPlaced logs and reports that the pods of a group are on nodes.
func (tl *groupReporter) reportPlaced(p gang.PlacedGroup) {
	pods := 0
	for _, n := range p.Nodes {
		pods += n
	}
	tl.log.V(2).Info("Group placed", "group", p.Key, "pods", pods, "nodes", len(p.Nodes))
	tl.reporter.Report(p.Key, report.Scheduled(report.Placement{
		Nodes: p.Nodes, Waiting: p.RefusedLate, Reason: p.Reason, Message: p.Message,
		Expected: p.Expectation.Pods, SeatsUntil: p.Expectation.Until, Note: p.SeatNote,
	}), nil)
	tl.forgetIfGone(p.Key)
}
