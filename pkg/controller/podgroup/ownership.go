package podgroup

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// isManaged says that this controller made a PodGroup: it is marked as such, and
// the API server remembers who wrote it. The marks alone may have been copied
// from one PodGroup to another. Who removes the label takes the PodGroup over: it
// is a user's from then on, and goes with the owners that it still refers to.
func (c Config) isManaged(pg *scheduling.PodGroup) bool {
	if pg.Labels[ManagedByLabel] != ManagedByValue || pg.Annotations[SchedulerAnnotation] != c.SchedulerName {
		return false
	}
	for _, f := range pg.ManagedFields {
		if f.Manager == FieldManager && f.Subresource == "" {
			return true
		}
	}
	return false
}

// minMemberManager returns the field manager that minMember is left to: any but this
// controller that the API server names as one of its owners, which whoever
// changes the value becomes. When nobody else owns it any more (a later apply
// leaves it out) it is this controller's again. Empty is nobody.
func minMemberManager(pg *scheduling.PodGroup) string {
	for _, f := range pg.ManagedFields {
		if f.Manager == FieldManager || f.Subresource != "" || f.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, owns := fields.Spec["f:minMember"]; owns {
			return f.Manager
		}
	}
	return ""
}

// references returns one reference for each owner that is there to stay. None
// controls the PodGroup, and none is kept waiting for it when it is deleted.
func (o observation) references() []metav1.OwnerReference {
	var refs []metav1.OwnerReference
	for _, w := range o.topOwners {
		gv, err := schema.ParseGroupVersion(w.ref.APIVersion)
		if !w.canOwn() || err != nil || gv.Version == "" || w.ref.Kind == "" || w.ref.Name == "" || w.ref.UID == "" {
			continue
		}
		refs = append(refs, metav1.OwnerReference{
			APIVersion: w.ref.APIVersion, Kind: w.ref.Kind, Name: w.ref.Name, UID: w.ref.UID,
			Controller: new(false), BlockOwnerDeletion: new(false),
		})
	}
	return refs
}

// wantedSpec returns what is to be written of a PodGroup beside its status; nil
// if that is nothing.
func (c Config) wantedSpec(o observation, w wantedSize) *spec {
	if !c.isManaged(o.podGroup) {
		return nil
	}
	s := &spec{owners: o.references(), minMember: w.minMember}
	if minMemberManager(o.podGroup) != "" {
		s.minMember = 0
	}
	lacks := slices.ContainsFunc(s.owners, func(ref metav1.OwnerReference) bool {
		return !slices.ContainsFunc(o.podGroup.OwnerReferences, func(have metav1.OwnerReference) bool { return have.UID == ref.UID })
	})
	if !lacks && (s.minMember == 0 || s.minMember == o.podGroup.Spec.MinMember) {
		return nil
	}
	return s
}
