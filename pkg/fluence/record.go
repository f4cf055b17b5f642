package fluence

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
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

// recordSteps logs and counts what became of groups since it was last called.
func (pl *Fluence) recordSteps() {
	for _, s := range pl.groups.Steps() {
		log := pl.log.V(2)
		switch s.Kind {
		case group.Started:
			waited := pl.now().Sub(s.Complete)
			log.Info("Group started", "group", s.Key, "job", s.Job, "pods", s.Pods, "waited", waited)
			pl.counters.waits.Observe(waited.Seconds())
		case group.GaveBack:
			log.Info("Group gave back", "group", s.Key, "job", s.Job, "pods", s.Pods, "reason", s.Reason)
			pl.counters.gaveBack.Inc()
		case group.Ended:
			pl.logged.forget(s.Key)
			log.Info("Group released", "group", s.Key)
		}
	}
}
