package podgroup

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-k8s/fluence/pkg/group"
)

// groupIndex is the index of pods and parts by namesOf.
const groupIndex = "fluence.group"

// namesOf returns the names of all PodGroups that an object may belong to, by what
// it says itself: an index must not go by objects that are seen after it. The
// members of a group are found from it by descending: the parts of this name, the
// pods of this name and of the names of these parts; and of all these the ones
// whose identity it is.
func namesOf(obj client.Object) []string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	p, isPart := asPodOwner(obj)
	if isPart {
		add(p.template.Labels[group.Label])
		add(p.owner().PodGroupName())
	} else {
		add(obj.GetLabels()[group.Label])
	}
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil {
		return names
	}
	switch {
	case isPart && ref.Kind == "Pod":
		add(unit(ref.Name, ref.UID).PodGroupName())
	case !isPart && ref.Kind == "StatefulSet":
		// It may lead a unit of a LeaderWorkerSet.
		add(unit(obj.GetName(), obj.GetUID()).PodGroupName())
		add(group.OwnerOf(*ref).PodGroupName())
	default:
		add(group.OwnerOf(*ref).PodGroupName())
	}
	return names
}

// unit is what the group of a LeaderWorkerSet's leader and its workers is named
// for: it has the leader's name and UID.
func unit(name string, uid types.UID) group.Owner {
	return group.Owner{Group: leaderWorkerSet.Group, Kind: leaderWorkerSet.Kind, Name: name, UID: uid}
}

// namesOfPod returns the groups that an event of a pod concerns: its own, or while
// that cannot be told all that it may be in.
func namesOfPod(pod *corev1.Pod, owners group.Owners) []string {
	id := group.IdentityOf(pod, owners)
	switch {
	case id.InPodGroup:
		return []string{id.Key.Name}
	case id.MissingOwner != group.Owner{}:
		return namesOf(pod)
	default:
		return nil
	}
}
