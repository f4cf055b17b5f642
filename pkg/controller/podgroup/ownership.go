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
	return slices.ContainsFunc(pg.ManagedFields, isOwnEntry)
}

// minMemberManager returns another field manager that owns spec.minMember. It returns "" if there
// is none. A user or program that changes the value becomes its owner. If a later apply of this
// owner leaves the field out, minMember belongs to this controller again.
func minMemberManager(pg *scheduling.PodGroup) string {
	if i := slices.IndexFunc(pg.ManagedFields, ownsMinMember); i >= 0 {
		return pg.ManagedFields[i].Manager
	}
	return ""
}

// minMemberFields are managed fields that own spec.minMember and nothing else.
const minMemberFields = `{"f:spec":{"f:minMember":{}}}`

// slimManagedFields reduces managed fields to the entries that isManaged and minMemberManager look
// at. Both return the same for the result as for the full list. Managed fields list each owner
// reference, so they may be as large as the object.
func slimManagedFields(all []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var slim []metav1.ManagedFieldsEntry
	if slices.ContainsFunc(all, isOwnEntry) {
		slim = append(slim, metav1.ManagedFieldsEntry{Manager: FieldManager})
	}
	if i := slices.IndexFunc(all, ownsMinMember); i >= 0 {
		slim = append(slim, metav1.ManagedFieldsEntry{Manager: all[i].Manager, FieldsV1: metav1.NewFieldsV1(minMemberFields)})
	}
	return slim
}

// isOwnEntry reports whether an entry says that this controller wrote metadata or spec.
func isOwnEntry(f metav1.ManagedFieldsEntry) bool {
	return f.Manager == FieldManager && f.Subresource == ""
}

// ownsMinMember reports whether an entry says that another manager owns spec.minMember.
func ownsMinMember(f metav1.ManagedFieldsEntry) bool {
	if f.Manager == FieldManager || f.Subresource != "" || f.FieldsV1 == nil {
		return false
	}
	var fields struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields) != nil {
		return false
	}
	_, owns := fields.Spec["f:minMember"]
	return owns
}

// references returns one reference for each owner that exists and is not being deleted, at most
// maxReferences of them, by UID. If more owners exist, the garbage collector deletes the PodGroup
// when the last referenced owner is gone, and this controller creates it again for the others. No
// reference is a controller reference, and none blocks the deletion of its owner.
func (o observation) references() []metav1.OwnerReference {
	var refs []metav1.OwnerReference
	for _, top := range o.topOwners {
		gv, err := schema.ParseGroupVersion(top.ref.APIVersion)
		if !top.isLive() || err != nil || gv.Version == "" || top.ref.Kind == "" || top.ref.Name == "" || top.ref.UID == "" {
			continue
		}
		if len(refs) == maxReferences {
			break
		}
		refs = append(refs, metav1.OwnerReference{
			APIVersion: top.ref.APIVersion, Kind: top.ref.Kind, Name: top.ref.Name, UID: top.ref.UID,
			Controller: new(false), BlockOwnerDeletion: new(false),
		})
	}
	return refs
}

// wantedFields returns the owner references, the minMember and the templates to write. It returns
// nil if they are up to date, or if this controller did not make the PodGroup.
func (c Config) wantedFields(o observation, w sizeDecision) *fieldsToApply {
	if !c.isManaged(o.podGroup) {
		return nil
	}
	s := &fieldsToApply{owners: o.references(), minMember: w.minMember}
	s.templates = o.wantedTemplates()
	active := o.activeOwners()
	unread := slices.ContainsFunc(active, func(top topOwner) bool { return top.state != readable })
	if o.hasEnded() || o.idle() || len(active) == 0 || unread {
		s.templates = o.podGroup.Spec.Templates
	}
	if minMemberManager(o.podGroup) != "" {
		s.minMember = 0
	}
	// The cache holds no more than maxReferences. If the list is full, it is not known which are missing.
	lacks := len(o.podGroup.OwnerReferences) < maxReferences && slices.ContainsFunc(s.owners, func(ref metav1.OwnerReference) bool {
		return !slices.ContainsFunc(o.podGroup.OwnerReferences, func(have metav1.OwnerReference) bool { return have.UID == ref.UID })
	})
	if !lacks && (s.minMember == 0 || s.minMember == o.podGroup.Spec.MinMember) && sameTemplates(s.templates, o.podGroup.Spec.Templates) {
		return nil
	}
	return s
}
