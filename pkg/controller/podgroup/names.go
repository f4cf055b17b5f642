package podgroup

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
)

// groupIndex is the cache's index of podOwners by possibleGroupNames. Pods are in a podIndex.
const groupIndex = "fluence.group"

// possibleGroupNames returns the names of all PodGroups that an object may belong to. It looks at
// this object alone, because an index entry cannot depend on objects that come later. The members
// of a group are found in three steps. The first finds the podOwners under its name. The second
// finds the pods under its name and under the names of these podOwners. The third keeps the pods
// and podOwners whose identity is the group.
func possibleGroupNames(obj client.Object) []string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	p, isPodOwner := asPodOwner(obj)
	if isPodOwner {
		add(namedGroup(obj.GetNamespace(), p.template.Labels, &p.template.Spec))
		add(p.owner().PodGroupName())
	} else if pod, ok := obj.(*corev1.Pod); ok {
		add(namedGroup(pod.Namespace, pod.Labels, &pod.Spec))
	}
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil {
		return names
	}
	switch {
	case isPodOwner && ref.Kind == "Pod":
		add(unit(ref.Name, ref.UID).PodGroupName())
	case !isPodOwner && ref.Kind == "StatefulSet":
		// The pod may lead a unit of a LeaderWorkerSet.
		add(unit(obj.GetName(), obj.GetUID()).PodGroupName())
		add(group.OwnerOf(*ref).PodGroupName())
	default:
		add(group.OwnerOf(*ref).PodGroupName())
	}
	return names
}

// namedGroup returns the name of the group that a pod names, in a
// field or else in a label. It returns "" if the pod names none.
func namedGroup(namespace string, labels map[string]string, spec *corev1.PodSpec) string {
	if name := group.NativePodGroupOf(spec); name != "" {
		return group.NativeKey(namespace, name).Name
	}
	return labels[group.Label]
}

// unit returns the Owner for which the group of a leader of a LeaderWorkerSet and its workers is
// named. It has the leader's name and UID.
func unit(name string, uid types.UID) group.Owner {
	return group.Owner{Group: leaderWorkerSet.Group, Kind: leaderWorkerSet.Kind, Name: name, UID: uid}
}

// namesOfPod returns the groups that an event of a pod concerns: the pod's group or, while its owner is
// not in the cache, all groups that it may be in. A pod with a duration that is in no group has a name of its own. The pods of a native PodGroup also concern the group that
// is named for their owner, because they do not count there.
func namesOfPod(pod *corev1.Pod, owners group.Owners) []string {
	id := group.IdentityOf(pod, owners)
	switch {
	case id.InPodGroup && group.NativePodGroupOf(&pod.Spec) != "":
		names := possibleGroupNames(pod)
		if id.Owner != (group.Owner{}) {
			names = append(names, id.Owner.PodGroupName())
		}
		return names
	case id.InPodGroup:
		return []string{id.Key.Name}
	case id.MissingOwner != group.Owner{}:
		return possibleGroupNames(pod)
	default:
		if name := loneName(pod, id); name != "" {
			return []string{name}
		}
		return nil
	}
}
