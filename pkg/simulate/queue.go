package simulate

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/fluence"
	"github.com/flux-k8s/fluence/pkg/group"
)

// Queue returns the groups of a cluster that may ask for nodes, in the order in which the scheduler
// asks for them, with the pod that asks. Unlike New it needs only pods, PodGroups and the owners of pods,
// and builds no scheduler. It returns an error if the configuration is invalid.
func Queue(pods []*corev1.Pod, c Cluster, owners group.Owners, configuration Configuration, now time.Time) ([]fluence.QueuedGroup, error) {
	v := fluence.QueueView{
		Pods: pods, PodGroups: c.PodGroups, NativePodGroups: c.NativePodGroups, Owners: owners,
		Profile: configuration.Scheduler(), Args: configuration.arguments(),
	}
	return v.Order(now)
}
