package group

import (
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

// mostName and mostUID are how many bytes a name, a kind or a group has at most, and a UID,
// for which the API server makes 36.
const (
	mostName = 253
	mostUID  = 128
)

// CanExist says whether there can be such an object. The API server takes references to
// others, with names and UIDs of a megabyte.
func (o Owner) CanExist() bool {
	return len(o.Group) <= mostName && len(o.Kind) <= mostName && len(o.Name) <= mostName && len(o.UID) <= mostUID
}

func (o Owner) is(k kindName) bool { return o.Group == k.group && o.Kind == k.kind }

// Followed says whether an object of this kind has to be looked up to know the
// group of the pods that it controls.
func (o Owner) Followed() bool { return KindOf(o).Followed }
