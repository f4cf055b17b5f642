package fluence

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// podEntity is implemented by the scheduler's queued pods. The framework exports no name for it.
type podEntity interface{ GetPodInfo() fwk.PodInfo }

// namespacedEntity is implemented by queued entities of every kind.
type namespacedEntity interface {
	GetNamespace() string
	GetName() string
}

// Less orders the scheduling queue by priority, then by the creation of the group, then by
// the group's name, so that the pods of a group are together. A pod that Fluence does not
// place is ordered by priority and by the time when it entered the queue. Less does no I/O.
func (pl *Fluence) Less(a, b fwk.QueuedEntityInfo) bool {
	return pl.rank(a).Less(pl.rank(b))
}

// rank returns the rank of a queued entity.
func (pl *Fluence) rank(e fwk.QueuedEntityInfo) gang.Rank {
	if h, ok := e.(podEntity); ok {
		if pod := h.GetPodInfo().GetPod(); pod.Spec.SchedulerName == pl.profile {
			return pl.podRank(pod)
		}
	}
	// This is a pod of another profile, or a pod group
	// of kube-scheduler, which is queued as one entity.
	return rankOfOther(e)
}

// podRank returns the rank of a pod of the profile.
func (pl *Fluence) podRank(pod *corev1.Pod) gang.Rank { return pl.groups.Rank(pod) }
