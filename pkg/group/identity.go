package group

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Label is the key of the label that puts a pod into a group; its value is the
// name of a PodGroup in the pod's namespace.
const Label = "scheduling.x-k8s.io/pod-group"

// An Identity says which group a pod belongs to. It is a pure function of the
// pod and of what controls it, so that all who compute it agree without talking
// to each other.
type Identity struct {
	// Key is that of the PodGroup if Named. Otherwise it names the pod alone: it
	// holds a character that no PodGroup's name may hold, and the pod's UID.
	Key        types.NamespacedName
	InPodGroup bool
	// NeedsPodGroup says that the pod waits for the PodGroup, whether or not it exists. A
	// Named pod without it may start alone, and with others once the PodGroup says
	// so.
	NeedsPodGroup bool
	// Owner is the object that the group is named for, at the top of those that
	// control the pod. It is zero if nothing does, and where a label names another
	// group it is still what controls the pod.
	Owner Owner
	// MissingOwner is the object that has to be seen before more can be said. Meanwhile
	// Gang is set, and Key names the pod alone unless a label names the group.
	MissingOwner Owner
}

// Owners looks up what controls objects that control pods. It is asked for the
// kinds that Followed lists only.
type Owners interface {
	// ControllerOf returns the object that controls o, zero if none does. It
	// returns false while o has not been seen.
	ControllerOf(namespace string, o Owner) (Owner, bool)
}

// IdentityOf returns the identity of a pod: the group label says it, else the object at
// the top of those that control the pod, else the pod is alone. An empty label
// says nothing.
func IdentityOf(pod *corev1.Pod, owners Owners) Identity {
	id := ofOwner(pod, owners)
	if name := pod.Labels[Label]; name != "" && name != id.Key.Name {
		// Whoever wrote the label knew; the owner need not be seen.
		return Identity{Key: types.NamespacedName{Namespace: pod.Namespace, Name: name}, InPodGroup: true, NeedsPodGroup: true, Owner: id.Owner, MissingOwner: id.MissingOwner}
	}
	return id
}

func ofOwner(pod *corev1.Pod, owners Owners) Identity {
	alone := Identity{Key: types.NamespacedName{Namespace: pod.Namespace, Name: "pod/" + pod.Name + "/" + string(pod.UID)}}
	topOwner, unseen := findTopOwner(pod, owners)
	alone.Owner = topOwner
	if unseen != (Owner{}) {
		alone.NeedsPodGroup, alone.MissingOwner = true, unseen
		return alone
	}
	k := KindOf(topOwner)
	said := WithoutDefaults(pod.Labels, pod.Annotations)
	labelled := said[SizeLabel] != "" || said[MinLabel] != ""
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

// findTopOwner follows what controls a pod up to the object that its group is named
// for. If one on the way was not seen it is returned as unseen.
func findTopOwner(pod *corev1.Pod, owners Owners) (topOwner, unseen Owner) {
	o := ControllerOf(pod)
	if !o.Followed() {
		return o, Owner{}
	}
	above, seen := owners.ControllerOf(pod.Namespace, o)
	switch {
	case !seen:
		return Owner{}, o
	case above == (Owner{}):
		return o, Owner{}
	case o.isKind(statefulSet) && above.isKind(leaderWorkerSet):
		// The pod leads a unit, which has its name.
		return Owner{Group: leaderWorkerSet.group, Kind: leaderWorkerSet.kind, Name: pod.Name, UID: pod.UID}, Owner{}
	case o.isKind(statefulSet) && above.isKind(podKind):
		// The StatefulSet of the workers of a unit, which its leader controls.
		return Owner{Group: leaderWorkerSet.group, Kind: leaderWorkerSet.kind, Name: above.Name, UID: above.UID}, Owner{}
	case KindOf(above).holds(o):
		return above, Owner{}
	default:
		// A CronJob, for instance: each of its Jobs is a group.
		return o, Owner{}
	}
}

// maxLabelLength is the length of a DNS-1123 label (RFC 1123, section 2.1), which is
// also that of a label's value.
const maxLabelLength = 63

// PodGroupName returns the name of the PodGroup that is made for an owner:
// KIND-NAME-HASH, where HASH comes from the UID alone, so that an object and its
// successor of the same name differ. It is a DNS-1123 label whatever the owner is
// called: a long name is cut, and what such a label may not hold becomes "-".
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

func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
}
