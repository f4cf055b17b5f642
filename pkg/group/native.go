package group

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A native PodGroup is a PodGroup of the API group scheduling.k8s.io, which is a part of
// Kubernetes. Pods name it in the field spec.schedulingGroup.podGroupName. The other kind is
// Fluence's own, of the API group scheduling.x-k8s.io.

// MinMemberAnnotation is an annotation of native PodGroups: how many pods start together. The
// controller writes it where the PodGroup's policy is basic, which says no minimum. Its value is
// a whole number from 1 to MaxSize.
const MinMemberAnnotation = "fluence.flux-framework.org/min-member"

// nativePrefix begins the name in the key of each native PodGroup's
// group. The name of a PodGroup may not have its last character.
const nativePrefix = "scheduling.k8s.io/"

// NativeKind is what users call the kind of native PodGroups, to tell it from Fluence's own.
const NativeKind = "podgroup.scheduling.k8s.io"

// NativePodGroupOf returns the name of the native PodGroup that the
// spec of a pod names. It returns nothing if the spec names none.
func NativePodGroupOf(spec *corev1.PodSpec) string {
	if spec.SchedulingGroup == nil || spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return *spec.SchedulingGroup.PodGroupName
}

// NativeKey returns the key of the group of a native PodGroup.
func NativeKey(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: nativePrefix + name}
}

// NativeName returns the name of the native PodGroup that a group's key
// is for. It returns false if the group is of another kind.
func NativeName(key types.NamespacedName) (name string, native bool) {
	return strings.CutPrefix(key.Name, nativePrefix)
}

// KeyText returns how messages name the PodGroup of a key: PodGroup NAMESPACE/NAME,
// or podgroup.scheduling.k8s.io NAMESPACE/NAME if it is a native PodGroup.
func KeyText(key types.NamespacedName) string {
	if name, native := NativeName(key); native {
		return "podgroup.scheduling.k8s.io " + key.Namespace + "/" + name
	}
	return "PodGroup " + key.String()
}
