package fluence

import (
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
)

// podHolder is implemented by the scheduler's queued pods. The framework
// exports no name for it.
type podHolder interface{ GetPodInfo() fwk.PodInfo }

// named is what queued entities of every kind have.
type named interface {
	GetNamespace() string
	GetName() string
}

// Less orders the scheduling queue: by priority, then by the creation of the
// group, then by its name, so that a group's pods stand together. It reads
// memory only.
func (pl *Fluence) Less(a, b fwk.QueuedEntityInfo) bool {
	return pl.rank(a).Less(pl.rank(b))
}

func (pl *Fluence) rank(e fwk.QueuedEntityInfo) group.Rank {
	if h, ok := e.(podHolder); ok {
		return pl.groups.Rank(h.GetPodInfo().GetPod())
	}
	// A group of the scheduler's own kind: it is queued as one.
	r := group.Rank{Priority: e.GetPriority(), Created: e.GetTimestamp()}
	if n, ok := e.(named); ok {
		r.Key = types.NamespacedName{Namespace: n.GetNamespace(), Name: n.GetName()}
	}
	return r
}
