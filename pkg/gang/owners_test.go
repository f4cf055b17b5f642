package gang

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// seenOwners maps the owners that were seen to their own owners.
type seenOwners map[group.Owner]group.Owner

func (s seenOwners) ControllerOf(_ string, o group.Owner) (group.Owner, bool) {
	above, seen := s[o]
	return above, seen
}

// A kindName is a kind of objects that control pods.
type kindName struct{ group, kind string }

var (
	job        = kindName{"batch", "Job"}
	replicaSet = kindName{"apps", "ReplicaSet"}
	deployment = kindName{"apps", "Deployment"}
)

// by returns the one object of its kind.
func by(k kindName) group.Owner {
	return group.Owner{Group: k.group, Kind: k.kind, Name: "train", UID: types.UID("uid-of-" + k.kind)}
}

// controlledPod returns a pod that an object controls.
func controlledPod(o group.Owner) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "train-0",
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: o.Group + "/v1", Kind: o.Kind, Name: o.Name, UID: o.UID, Controller: new(true),
		}},
	}}
}
