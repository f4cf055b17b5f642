package podgroup

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// isManaged reports whether this controller made a PodGroup: the PodGroup has
// the marks of this controller, and its managed fields name this controller as
// a writer. The marks alone do not count, because they may have been copied
// from one PodGroup to another. A user who removes the label takes the PodGroup
// over. From then on it is deleted with the owners that it still refers to.
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

// minMemberManager returns another field manager that owns spec.minMember. It returns
// "" if there is none. Whoever changes the value becomes its owner. If a later apply
// of this owner leaves the field out, minMember belongs to this controller again.
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

// references returns one reference for each owner that exists and is not being deleted.
// No reference is a controller reference, and none blocks the deletion of its owner.
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

// wantedSpec returns the owner references and the minMember to write. It returns
// nil if they are up to date, or if this controller did not make the PodGroup.
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
