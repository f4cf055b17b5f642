package report

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/flux-k8s/fluence/pkg/reason"
)

// NeedsWaitingStatus reports whether a pod's condition PodScheduled has to say why its
// group waits. The pod is not the one being scheduled. A pod without the condition gets it
// only if its group lacks room, because more nodes would not help with any other reason. A
// pod with the condition gets it again when the stable text of the message changes. texts
// is shared by calls for many pods.
func NeedsWaitingStatus(pod *corev1.Pod, why, message string, texts StableTexts) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			differs := (c.Reason == reason.Preempting) != (why == reason.Preempting) || !texts.equal(c.Message, message)
			return c.Status == corev1.ConditionFalse && differs
		}
	}
	return reason.PropertiesOf(why).LacksRoom
}

// WriteWaitingStatus sets PodScheduled to False on a pod, with a message. The reason is Unschedulable, or Preempting
// if why is that: cluster autoscalers look for the first. It does nothing
// if the pod has changed since it was seen, because the pod may have a node by now.
func WriteWaitingStatus(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, why, message string) error {
	because := corev1.PodReasonUnschedulable
	if why == reason.Preempting {
		because = why
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: because, Message: message,
			LastTransitionTime: metav1.Now(), ObservedGeneration: pod.Generation,
		}}},
	})
	if err != nil {
		return fmt.Errorf("encode the status of a pod: %w", err)
	}
	_, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{FieldManager: FieldManager}, "status")
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("patch the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
