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
func (tl *teller) recordRefused(key types.NamespacedName, reason, message string) {
	level := 4
	if tl.logged.isNews(key, reason+"\n"+message) {
		level = 2
	}
	tl.log.V(level).Info("Group refused", "group", key, "reason", reason, "message", message)
}

// recordTransition logs and counts what became of a group.
func (tl *teller) recordTransition(t gang.Transition) {
	log := tl.log.V(2)
	switch t.Kind {
	case gang.Started:
		waited := tl.now().Sub(t.Complete)
		log.Info("Group started", "group", t.Key, "job", t.Job, "pods", t.Pods, "waited", waited)
		tl.counters.waits.Observe(waited.Seconds())
	case gang.GaveBack:
		log.Info("Group gave back", "group", t.Key, "job", t.Job, "pods", t.Pods, "reason", t.Reason)
		tl.counters.gaveBack.Inc()
	case gang.Ended:
		tl.logged.forget(t.Key)
		log.Info("Group released", "group", t.Key)
	}
}

// tellPlaced logs and reports a group that has come to hold nodes.
func (tl *teller) tellPlaced(p gang.Placement) {
	pods := 0
	for _, n := range p.Nodes {
		pods += n
	}
	tl.log.V(2).Info("Group placed", "group", p.Key, "pods", pods, "nodes", len(p.Nodes))
	tl.reporter.Report(p.Key, report.Scheduled(report.Placement{Nodes: p.Nodes, Waiting: p.Waiting, Reason: p.Reason, Message: p.Message}), nil)
	tl.forgetGone(p.Key)
}
