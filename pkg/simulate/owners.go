package simulate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// Owners has the controllers of Jobs, ReplicaSets and StatefulSets, by the UID of
// these. An object without a controller has the zero Owner. It implements group.Owners.
type Owners map[types.UID]group.Owner

// OwnersOf returns the Owners of the Jobs, ReplicaSets and StatefulSets among objects of any kind.
func OwnersOf(objects []runtime.Object) Owners {
	owners := Owners{}
	for _, o := range objects {
		if _, watched := group.WatchedKindOf(o); watched {
			owners.put(o.(metav1.Object))
		}
	}
	return owners
}

func (o Owners) put(m metav1.Object) { o[m.GetUID()] = group.ControllerOf(m) }

// ControllerOf implements group.Owners.
func (o Owners) ControllerOf(_ string, of group.Owner) (group.Owner, bool) {
	above, ok := o[of.UID]
	return above, ok
}
