package group

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Label is the key of the label that puts a pod into a group; its value is the
// name of a PodGroup in the pod's namespace.
const Label = "scheduling.x-k8s.io/pod-group"

// maxName is the length of a DNS-1123 label (RFC 1123, section 2.1), which is
// also that of a label's value.
const maxName = 63

// An Identity says which group a pod belongs to. It is a pure function of the
// pod, so that all who compute it agree without talking to each other.
type Identity struct {
	// Key is the PodGroup's where Gang is set. Otherwise it names the pod alone:
	// it holds a character that no PodGroup's name may hold, and the pod's UID.
	Key types.NamespacedName
	// Gang says that the pod waits for the PodGroup named Key, whether or not it
	// exists. Without it the pod is a group of one and needs none.
	Gang bool
}

// Of returns the identity of a pod: the group label says it, else the Job that
// controls the pod, else the pod is alone. An empty label says nothing.
func Of(pod *corev1.Pod) Identity {
	if name := pod.Labels[Label]; name != "" {
		return Identity{Key: types.NamespacedName{Namespace: pod.Namespace, Name: name}, Gang: true}
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.APIVersion == "batch/v1" && owner.Kind == "Job" {
		return Identity{Key: types.NamespacedName{Namespace: pod.Namespace, Name: JobName(owner.Name, owner.UID)}, Gang: true}
	}
	return Identity{Key: types.NamespacedName{Namespace: pod.Namespace, Name: "pod/" + pod.Name + "/" + string(pod.UID)}}
}

// JobName returns the name of the PodGroup that is made for a Job (batch/v1):
// job-NAME-HASH, where HASH comes from the UID alone, so that a Job and its
// successor of the same name differ. It is a DNS-1123 label whatever the Job is
// called: a long name is cut, and what such a label may not hold becomes "-".
func JobName(name string, uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	hash := hex.EncodeToString(sum[:5])
	const prefix = "job-"
	room := maxName - len(prefix) - 1 - len(hash)
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return prefix + clean[:min(room, len(clean))] + "-" + hash
}
