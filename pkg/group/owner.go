package group

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Owner is an object that controls pods, directly or through other objects.
type Owner struct {
	// Group is the API group without a version; "" is the core group.
	Group string
	Kind  string
	Name  string
	UID   types.UID
}

// OwnerOf returns the object that a reference names.
func OwnerOf(ref metav1.OwnerReference) Owner {
	group, _, found := strings.Cut(ref.APIVersion, "/")
	if !found {
		group = ""
	}
	return Owner{Group: group, Kind: ref.Kind, Name: ref.Name, UID: ref.UID}
}

// ControllerOf returns the object that controls obj. It returns zero if there is none.
func ControllerOf(obj metav1.Object) Owner {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return OwnerOf(*ref)
	}
	return Owner{}
}

// ControllerReference returns the owner reference of the object that controls obj, in a slice
// of its own. It returns nil if there is none. Other references are not read.
func ControllerReference(obj metav1.Object) []metav1.OwnerReference {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return []metav1.OwnerReference{*ref}
	}
	return nil
}

// The limits of what an owner may be called.
const (
	// maxNameLength is the largest number of bytes of a name, a kind or an API group.
	maxNameLength = 253
	// maxUIDLength is the largest number of bytes of a UID. The API server makes UIDs of 36 bytes.
	maxUIDLength = 128
)

// CanExist reports whether an object like this can exist. The API server
// does not check references: it takes names and UIDs of a megabyte.
func (o Owner) CanExist() bool {
	return len(o.Group) <= maxNameLength && len(o.Kind) <= maxNameLength && len(o.Name) <= maxNameLength && len(o.UID) <= maxUIDLength
}

// isKind reports whether the owner is of a kind.
func (o Owner) isKind(k kindName) bool { return o.Group == k.group && o.Kind == k.kind }

// Watched reports whether the owner of this owner
// has to be looked up to know the group of its pods.
func (o Owner) Watched() bool { return KindOf(o).Watched }

// DefaultSize returns the size of an owner's group if no label gives one. The argument spec
// is the spec of the object, as JSON. A field that is absent has the default of its API.
//
//	Job                    min(parallelism, completions); min: the same
//	JobSet                 the pods of all its Jobs; min: the pods of the Jobs that are made first
//	MPIJob                 launcher and workers; min: the workers if the launcher waits for them
//	PyTorchJob, TFJob ...  the pods of all roles; min: the same, or with elastic workers fewer
//	RayCluster             head and workers; min: fewer if Ray scales the workers itself
//	LeaderWorkerSet        a leader and its workers; min: 1 if the workers wait for the leader
//	StatefulSet            replicas; min: 1 if pods are made one after another
//	Deployment, ReplicaSet replicas; min: 1
//	any other              1
//
// Only pod templates that name the scheduler count. If none does, all count: then a pod of the object
// that asks for the scheduler has its schedulerName from elsewhere, such as from an admission webhook.
// Templates that name a native PodGroup do not count: see NativeSizes.
//
// A size is at least 1. DefaultSize returns an error if a number is below
// 0, if the size is more than MaxSize, or if the spec is not a spec of this
// kind. The error names the field and its value in words fit for a user.
func DefaultSize(o Owner, spec []byte, scheduler string) (Size, error) {
	if !KindOf(o).Sized() {
		return Size{Size: 1, Min: 1}, nil
	}
	parts, err := partsOf(o, spec)
	if err != nil {
		return Size{}, err
	}
	return sizeIn("", o, parts, scheduler)
}

// NativeSizes returns what the pod templates of an owner ask for that name a native PodGroup, by the
// name of the PodGroup. A size is as DefaultSize returns it, but its minimum is without the pods that
// are made only after others of the PodGroup are bound. annotations are those of the owner. The result
// is empty if no template names a native PodGroup.
func NativeSizes(o Owner, annotations map[string]string, spec []byte, scheduler string) (map[string]Size, error) {
	parts, err := partsOf(o, spec)
	if err != nil {
		return nil, err
	}
	var sizes map[string]Size
	for _, p := range parts {
		name := p.native()
		if _, have := sizes[name]; have || name == "" {
			continue
		}
		size, err := sizeIn(name, o, parts, scheduler)
		if err != nil {
			return nil, err
		}
		templates, err := templatesIn(name, o, annotations, spec, scheduler)
		if err != nil {
			return nil, err
		}
		size.Min = max(1, size.Min-followers(templates))
		if sizes == nil {
			sizes = map[string]Size{}
		}
		sizes[name] = size
	}
	return sizes, nil
}

// sizeIn returns the size of the parts of an owner that are in a native PodGroup, or in none if native is empty.
func sizeIn(native string, o Owner, parts []part, scheduler string) (Size, error) {
	size, least := sizeOfParts(parts, scheduler, native)
	if size > MaxSize {
		return Size{}, fmt.Errorf("%s %s asks for %d pods: a group has at most %d", o.Kind, o.Name, size, MaxSize)
	}
	size = max(1, size)
	return Size{Size: int32(size), Min: int32(min(size, max(1, least)))}, nil
}

// A LabelledTemplate is a pod template in the spec of an owner.
type LabelledTemplate struct {
	// Name is the name of the template in the spec.
	Name string
	// Labels and Annotations are those of the template.
	Labels, Annotations map[string]string
	// Native is the native PodGroup that the template names. It is empty if it names none.
	Native string
}

// LabelledTemplates returns the pod templates of an owner that controls its pods itself and is not watched,
// so that the templates of its pods are nowhere else. It returns only those of the scheduler that ask for
// pods. It returns nothing for owners of other kinds.
func LabelledTemplates(o Owner, spec []byte, scheduler string) []LabelledTemplate {
	parts, err := partsOf(o, spec)
	if err != nil || !KindOf(o).ownsPods {
		return nil
	}
	var all []LabelledTemplate
	for _, p := range parts {
		if p.pods > 0 && p.Spec.SchedulerName == scheduler {
			all = append(all, LabelledTemplate{Name: p.name, Labels: p.Metadata.Labels, Annotations: p.Metadata.Annotations, Native: p.native()})
		}
	}
	return all
}

// OtherSchedulers says in words fit for a user which pods of an owner DefaultSize does not count,
// because their template names another scheduler. It returns "" if there are none.
func OtherSchedulers(o Owner, spec []byte, scheduler string) string {
	parts, err := partsOf(o, spec)
	if err != nil || !slices.ContainsFunc(parts, func(p part) bool { return p.Spec.SchedulerName == scheduler }) {
		return ""
	}
	var others []string
	for _, p := range parts {
		if p.Spec.SchedulerName != scheduler && p.pods > 0 {
			others = append(others, OtherScheduler(o, p.name, p.pods, p.Spec.SchedulerName))
		}
	}
	return strings.Join(others, ", ")
}

// OtherScheduler says in words fit for a user that pods of an owner ask for another scheduler. part
// names the pod template in the spec of the owner. It is empty if the spec has one template.
func OtherScheduler(o Owner, part string, pods int64, scheduler string) string {
	of, have := o.Kind+"/"+o.Name, "pods of %s have"
	if part != "" {
		of += ", " + part + ","
	}
	if pods == 1 {
		have = "pod of %s has"
	}
	return fmt.Sprintf("%d "+have+" schedulerName %s", pods, of, cmp.Or(scheduler, corev1.DefaultSchedulerName))
}

// partsOf reads the spec of an owner. It returns nothing if the spec does not
// say how many pods there are to be.
func partsOf(o Owner, spec []byte) ([]part, error) {
	kind := KindOf(o)
	if !kind.Sized() {
		return nil, nil
	}
	s := kind.spec()
	if err := json.Unmarshal(spec, s); err != nil {
		return nil, fmt.Errorf("read the spec of %s %s: %w", o.Kind, o.Name, err)
	}
	parts, err := s.parts()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.Kind, o.Name, err)
	}
	return parts, nil
}
