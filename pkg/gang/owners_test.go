package gang

import (
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

// ownerOfKind returns the one object of its kind.
func ownerOfKind(k kindName) group.Owner {
	return group.Owner{Group: k.group, Kind: k.kind, Name: "train", UID: types.UID("uid-of-" + k.kind)}
}
