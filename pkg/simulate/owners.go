package simulate

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/group"
)

// Owners has the controllers of Jobs, ReplicaSets and StatefulSets, by the UID of
// these. An object without a controller has the zero Owner. It implements group.Owners.
type Owners map[types.UID]group.Owner

// HasOwner reports whether an object of a kind controls another one.
func (c Cluster) HasOwner(apiGroup, kind string) bool {
	is := func(o metav1.Object) bool {
		of := group.ControllerOf(o)
		return of.Group == apiGroup && of.Kind == kind
	}
	return slices.ContainsFunc(c.Objects, func(o runtime.Object) bool { m, ok := o.(metav1.Object); return ok && is(m) }) ||
		slices.ContainsFunc(c.Owners, func(o metav1.PartialObjectMetadata) bool { return is(&o) })
}

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
