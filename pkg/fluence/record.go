package fluence

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/report"
)

// What becomes of a group is one line of the log each, at V(2), with the same keys
// whoever finds it out.

// recordRefused logs what a group is refused for, again only for another reason or
// other words: numbers alone change all the time.
func (pl *Fluence) recordRefused(key types.NamespacedName, reason, message string) {
	level := 4
	if pl.logged.isNews(key, reason+"\n"+message) {
		level = 2
	}
	pl.log.V(level).Info("Group refused", "group", key, "reason", reason, "message", message)
}

// recordTransition logs and counts what became of a group.
func (pl *Fluence) recordTransition(t gang.Transition) {
	log := pl.log.V(2)
	switch t.Kind {
	case gang.Started:
		waited := pl.now().Sub(t.Complete)
		log.Info("Group started", "group", t.Key, "job", t.Job, "pods", t.Pods, "waited", waited)
		pl.counters.waits.Observe(waited.Seconds())
	case gang.GaveBack:
		log.Info("Group gave back", "group", t.Key, "job", t.Job, "pods", t.Pods, "reason", t.Reason)
		pl.counters.gaveBack.Inc()
	case gang.Ended:
		pl.logged.forget(t.Key)
		log.Info("Group released", "group", t.Key)
	}
}

// tellPlaced logs and reports a group that has come to hold nodes.
func (pl *Fluence) tellPlaced(p gang.Placement) {
	pods := 0
	for _, n := range p.Nodes {
		pods += n
	}
	pl.log.V(2).Info("Group placed", "group", p.Key, "pods", pods, "nodes", len(p.Nodes))
	pl.reporter.Report(p.Key, report.Scheduled(report.Placement{Nodes: p.Nodes, Waiting: p.Waiting, Reason: p.Reason, Message: p.Message}), nil)
	pl.forgetGone(p.Key)
}
