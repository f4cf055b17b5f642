package translate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Holds reports whether a pod is charged to a node: from the moment it has one
// until it has succeeded or failed. A pod that is being deleted still holds.
func Holds(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// HeldSlot returns what a pod holds on its node as one slot, for an Update of a
// match.Engine: its key is the pod's UID, and its shares name types, no
// vertices. It is shared if the pod runs on every node, and names no holder. Whether
// the pod holds anything at all is for Holds to say.
func HeldSlot(pod *corev1.Pod) match.Slot {
	return slotOn(pod, pod.Spec.NodeName)
}

// NominatedSlot returns what a pod without a node is about to take on the one that it
// is nominated for, as Held does.
func NominatedSlot(pod *corev1.Pod) match.Slot { return slotOn(pod, pod.Status.NominatedNodeName) }

func slotOn(pod *corev1.Pod, node string) match.Slot {
	return match.Slot{
		Key: string(pod.UID), Node: node, R: Requests(pod).Set(), Shared: OnEveryNode(pod),
	}
}

// OnEveryNode reports whether a pod is there because its node is: a DaemonSet's,
// of whatever API group, or the image of a kubelet's own static pod. A DaemonSet's does not end by
// itself: who makes pods that do is no DaemonSet, whatever it says.
func OnEveryNode(pod *corev1.Pod) bool {
	c := metav1.GetControllerOfNoCopy(pod)
	if c == nil {
		return false
	}
	ends := pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure || pod.Spec.ActiveDeadlineSeconds != nil
	return c.Kind == "DaemonSet" && !ends || c.Kind == "Node" && c.APIVersion == "v1"
}
