package cli

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// uselessKeys says which labels and annotations of a group have Fluence's prefixes and no effect, as the webhook
// and the controller say it: of its PodGroup, which may be nil, its pods, and their owners as far as they were read.
func (ns *namespace) uselessKeys(pg *scheduling.PodGroup, pods []*corev1.Pod) []string {
	var objects []group.KeyedObject
	owners := map[types.UID]bool{}
	if pg != nil {
		place := group.OnPodGroup
		if shownName(pg.Name) != pg.Name {
			place = group.OnNativePodGroup
		}
		objects = append(objects, group.KeyedObject{Place: place, Labels: pg.Labels, Annotations: pg.Annotations})
		for _, ref := range pg.OwnerReferences {
			owners[ref.UID] = true
		}
	}
	for _, pod := range pods {
		kind := "pods"
		if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
			// The pod template has what the pods have, and is where it is corrected.
			kind, owners[ref.UID] = "", true
		}
		objects = append(objects, group.KeyedObject{Place: group.OnPod, Kind: kind, Labels: pod.Labels, Annotations: pod.Annotations})
	}
	for _, o := range ns.owners {
		if m := o.(metav1.Object); owners[m.GetUID()] {
			k, _ := group.WatchedKindOf(o)
			objects = append(objects, group.KeyedObject{Place: group.OnWorkload, Kind: k.Kind, Labels: m.GetLabels(), Annotations: m.GetAnnotations()})
		}
	}
	return group.KeyProblems(objects...)
}
