package translate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/match"
)

// Holds reports whether a pod is charged to a node: from the moment it has a node
// until it has succeeded or failed. A pod that is being deleted still holds resources.
func Holds(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// HeldSlot returns the resources that a pod holds on its node as one slot, for an Update of a
// match.Engine. Its key is the pod's UID, and its shares name types, not vertices. It is shared if
// the pod runs on every node. It has no holder. Call Holds to find out whether the pod holds
// anything at all.
func HeldSlot(pod *corev1.Pod) match.Slot {
	return slotOn(pod, pod.Spec.NodeName)
}

// NominatedSlot is like HeldSlot, for a pod without
// a node, on the node that the pod is nominated for.
func NominatedSlot(pod *corev1.Pod) match.Slot { return slotOn(pod, pod.Status.NominatedNodeName) }

func slotOn(pod *corev1.Pod, node string) match.Slot {
	return match.Slot{
		Key: string(pod.UID), Node: node, R: Requests(pod).Set(), Shared: OnEveryNode(pod),
	}
}

// OnEveryNode reports whether a pod exists because its node does: a pod of a DaemonSet, of
// whatever API group, or the mirror pod of a static pod. A pod that can end by itself does not
// count, even if its owner calls itself a DaemonSet, because the pods of a DaemonSet never do.
func OnEveryNode(pod *corev1.Pod) bool {
	c := metav1.GetControllerOfNoCopy(pod)
	if c == nil {
		return false
	}
	ends := pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure || pod.Spec.ActiveDeadlineSeconds != nil
	return c.Kind == "DaemonSet" && !ends || c.Kind == "Node" && c.APIVersion == "v1"
}
