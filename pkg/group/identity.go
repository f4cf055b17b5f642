package group

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Label is the key of the label that puts a pod into a group.
// Its value is the name of a PodGroup in the pod's namespace.
const Label = "scheduling.x-k8s.io/pod-group"

// An Identity says which group a pod belongs to. It follows from the pod and its
// owners alone, so that all who compute it agree without talking to each other.
type Identity struct {
	// Key is the key of the PodGroup if InPodGroup is true. Otherwise it names the pod
	// alone: it has the pod's UID, and a character that no PodGroup's name may have.
	Key types.NamespacedName
	// InPodGroup is true if Key is the key of a PodGroup, whether or not the PodGroup exists.
	InPodGroup bool
	// NeedsPodGroup is true if the pod has to wait until the PodGroup exists. With InPodGroup
	// alone, the pod starts by itself unless a PodGroup exists and asks for more pods.
	NeedsPodGroup bool
	// Owner is the object at the top of the objects that control the pod.
	// The group is named for it, unless a label names another group. It
	// is zero if nothing controls the pod, and while MissingOwner is set.
	Owner Owner
	// MissingOwner is the object that has to be seen before the group is known. Until then
	// NeedsPodGroup is true, and Key names the pod alone unless a label or a field names the group.
	MissingOwner Owner
	// NeedsMinimum is true if the pod is in a native PodGroup, and would need a PodGroup of Fluence
	// if it were not. If the native PodGroup says no minimum, the pod has to wait until the
	// controller does. It is also true while MissingOwner is set.
	NeedsMinimum bool
}

// Owners looks up what controls the owner of a pod.
// It is called only for an Owner that is Watched.
type Owners interface {
	// ControllerOf returns the object that controls o, and zero if
	// there is none. It returns false while o has not been seen.
	ControllerOf(namespace string, o Owner) (Owner, bool)
}

// IdentityOf returns the identity of a pod. The field spec.schedulingGroup decides, then the group
// label. Without both, or with an empty label, the object at the top of the pod's owners decides.
// Without an owner the pod is alone.
func IdentityOf(pod *corev1.Pod, owners Owners) Identity {
	id := identityByOwner(pod, owners)
	if name := NativePodGroupOf(&pod.Spec); name != "" {
		return id.inNativePodGroup(pod, name)
	}
	if name := pod.Labels[Label]; name != "" && name != id.Key.Name {
		// The label decides. The owner need not be seen.
		return Identity{Key: types.NamespacedName{Namespace: pod.Namespace, Name: name}, InPodGroup: true, NeedsPodGroup: true, Owner: id.Owner, MissingOwner: id.MissingOwner}
	}
	return id
}

// inNativePodGroup returns the identity of a pod that names a native
// PodGroup. The receiver is the pod's identity by its owner.
func (id Identity) inNativePodGroup(pod *corev1.Pod, name string) Identity {
	return Identity{
		Key: NativeKey(pod.Namespace, name), InPodGroup: true, NeedsPodGroup: true,
		Owner: id.Owner, MissingOwner: id.MissingOwner,
		NeedsMinimum: id.NeedsPodGroup || hasUserSize(pod) && !KindOf(id.Owner).NeverFormsGroup,
	}
}

// Alone returns the owner that a pod is of itself, by the key of its Identity. It returns false for the key of a PodGroup.
func Alone(key types.NamespacedName) (Owner, bool) {
	parts := strings.Split(key.Name, "/")
	if len(parts) != 3 || parts[0] != "pod" {
		return Owner{}, false
	}
	return Owner{Kind: podKind.kind, Name: parts[1], UID: types.UID(parts[2])}, true
}

// hasUserSize reports whether a pod has a size label that was not filled in.
func hasUserSize(pod *corev1.Pod) bool {
	userLabels := WithoutDefaults(pod.Labels, pod.Annotations)
	return userLabels[SizeLabel] != "" || userLabels[MinLabel] != ""
}

// identityByOwner returns the identity of a pod without regard to the group label.
func identityByOwner(pod *corev1.Pod, owners Owners) Identity {
	alone := Identity{Key: types.NamespacedName{Namespace: pod.Namespace, Name: "pod/" + pod.Name + "/" + string(pod.UID)}}
	topOwner, unseen := findTopOwner(pod, owners)
	alone.Owner = topOwner
	if unseen != (Owner{}) {
		alone.NeedsPodGroup, alone.MissingOwner = true, unseen
		return alone
	}
	k := KindOf(topOwner)
	labelled := hasUserSize(pod)
	if topOwner == (Owner{}) || k.NeverFormsGroup || !k.FormsGroup && !labelled {
		return alone
	}
	return Identity{
		Key:           types.NamespacedName{Namespace: pod.Namespace, Name: topOwner.PodGroupName()},
		InPodGroup:    true,
		NeedsPodGroup: k.NeedsPodGroup || labelled,
		Owner:         topOwner,
	}
}

// findTopOwner follows the owners of a pod up to the object that its group is
// named for. If an owner on the way was not seen, it returns that owner as unseen.
func findTopOwner(pod *corev1.Pod, owners Owners) (topOwner, unseen Owner) {
	o := ControllerOf(pod)
	if !o.Watched() {
		return o, Owner{}
	}
	above, seen := owners.ControllerOf(pod.Namespace, o)
	switch {
	case !seen:
		return Owner{}, o
	case above == (Owner{}):
		return o, Owner{}
	case o.isKind(statefulSet) && above.isKind(leaderWorkerSet):
		// The pod is the leader of a unit. The unit has the pod's name.
		return Owner{Group: leaderWorkerSet.group, Kind: leaderWorkerSet.kind, Name: pod.Name, UID: pod.UID}, Owner{}
	case o.isKind(statefulSet) && above.isKind(podKind):
		// The pod is a worker of a unit. Its StatefulSet is controlled by the leader of the unit.
		return Owner{Group: leaderWorkerSet.group, Kind: leaderWorkerSet.kind, Name: above.Name, UID: above.UID}, Owner{}
	case KindOf(above).formsGroupWith(o):
		return above, Owner{}
	default:
		// The owner above is a CronJob, for instance: each of its Jobs is a group.
		return o, Owner{}
	}
}

// maxLabelLength is the longest DNS-1123 label (RFC 1123, section
// 2.1). The value of a Kubernetes label has the same limit.
const maxLabelLength = 63

// PodGroupName returns the name of the PodGroup that is made for an owner: KIND-NAME-HASH.
// HASH comes from the UID alone, so that an object and its successor of the same name have
// different PodGroups. The result is a DNS-1123 label whatever the owner's name is: a long
// name is cut, and each character that such a label may not have becomes "-".
func (o Owner) PodGroupName() string {
	sum := sha256.Sum256([]byte(o.UID))
	hash := hex.EncodeToString(sum[:5])
	kind := clean(o.Kind)
	kind = kind[:min(len(kind), maxLabelLength/3)]
	if kind == "" || kind[0] == '-' {
		kind = "x" + kind
	}
	name := clean(o.Name)
	room := maxLabelLength - len(kind) - len(hash) - 2
	return kind + "-" + name[:min(room, len(name))] + "-" + hash
}

// clean returns s in lower case, with "-" for each character that a DNS-1123 label may not have.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
}
