package fluence

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// podHolder is implemented by the scheduler's queued pods. The framework
// exports no name for it.
type podHolder interface{ GetPodInfo() fwk.PodInfo }

// namespacedName is what queued entities of every kind have.
type namespacedName interface {
	GetNamespace() string
	GetName() string
}

// Less orders the scheduling queue: by priority, then by the creation of the
// group, then by its name, so that a group's pods stand together. What Fluence
// does not place stands among them at the time at which it came into the queue. It
// reads memory only.
func (pl *Fluence) Less(a, b fwk.QueuedEntityInfo) bool {
	return pl.rank(a).Less(pl.rank(b))
}

func (pl *Fluence) rank(e fwk.QueuedEntityInfo) gang.Rank {
	if h, ok := e.(podHolder); ok {
		if pod := h.GetPodInfo().GetPod(); pod.Spec.SchedulerName == pl.profile {
			return pl.groups.Rank(pod)
		}
	}
	// A pod of another profile, or a group of the scheduler's own kind: it is queued
	// as one.
	return rankOfOther(e)
}
