package group

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Owner is an object that controls pods, directly or through others.
type Owner struct {
	// Group is that of the API, without a version; "" is the core group.
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

// ControllerOf returns what controls an object, zero if nothing does.
func ControllerOf(obj metav1.Object) Owner {
	if ref := metav1.GetControllerOfNoCopy(obj); ref != nil {
		return OwnerOf(*ref)
	}
	return Owner{}
}

// maxNameLength and maxUIDLength are how many bytes a name, a kind or a group has at most, and a UID,
// for which the API server makes 36.
const (
	maxNameLength = 253
	maxUIDLength  = 128
)

// CanExist says whether there can be such an object. The API server takes references to
// others, with names and UIDs of a megabyte.
func (o Owner) CanExist() bool {
	return len(o.Group) <= maxNameLength && len(o.Kind) <= maxNameLength && len(o.Name) <= maxNameLength && len(o.UID) <= maxUIDLength
}

func (o Owner) isKind(k kindName) bool { return o.Group == k.group && o.Kind == k.kind }

// Followed says whether an object of this kind has to be looked up to know the
// group of the pods that it controls.
func (o Owner) Followed() bool { return KindOf(o).Followed }

// DefaultSize returns the size of an owner's group where no label says one, from
// the spec of the object as JSON. What is absent has the default of its API.
//
//	Job                    min(parallelism, completions); both
//	JobSet                 the pods of all its Jobs; min: of those that are made first
//	MPIJob                 launcher and workers; min: without a launcher that waits for them
//	LeaderWorkerSet        a leader and its workers; min: 1 if these wait for the leader
//	StatefulSet            replicas; min: 1 if pods are made one after another
//	Deployment, ReplicaSet replicas; min: 1
//	any other              1
//
// A size is at least 1. An error names the field and its value in words fit for
// a user: it is more than MaxSize, or below 0, or the spec is none of that kind.
func DefaultSize(o Owner, spec []byte) (Size, error) {
	kind := KindOf(o)
	if !kind.Sized() {
		return Size{Size: 1, Min: 1}, nil
	}
	s := kind.spec()
	if err := json.Unmarshal(spec, s); err != nil {
		return Size{}, fmt.Errorf("spec of %s %s: %w", o.Kind, o.Name, err)
	}
	size, least, err := s.size()
	if err != nil {
		return Size{}, fmt.Errorf("%s %s: %w", o.Kind, o.Name, err)
	}
	if size > MaxSize {
		return Size{}, fmt.Errorf("%s %s: asks for %d pods: a group has at most %d", o.Kind, o.Name, size, MaxSize)
	}
	size = max(1, size)
	return Size{Size: int32(size), Min: int32(min(size, max(1, least)))}, nil
}
