package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

const (
	// writers is the number of statuses written at a time.
	writers = 16
	// checkers is the number of nodes checked at a time.
	checkers = 4
	// requestTimeout bounds one request.
	requestTimeout = 30 * time.Second
)

// mark is what is to be written into the status of the
// pod uid: a condition, or the result of a resize.
type mark struct {
	uid       types.UID
	condition corev1.PodCondition

	pod    *corev1.Pod
	resize *resize
}

// say queues a verdict.
func (k *kubelet) say(ctx context.Context, v verdict) {
	now := time.Now()
	c := corev1.PodCondition{Type: Admitted, Status: corev1.ConditionTrue, Reason: "Fits", LastTransitionTime: metav1.NewTime(now)}
	if !v.admitted {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, v.reason, v.message
		klog.FromContext(ctx).Info("Rejected pod", "pod", klog.KObj(v.pod), "node", v.pod.Spec.NodeName, "reason", v.reason, "message", v.message)
	}
	k.enqueue(v.pod, c)
	if v.admitted {
		k.at[v.pod.UID] = now
		k.sayEnd(v.pod)
	}
}

// sayEnd queues the pod's end, if it differs from the last one queued.
func (k *kubelet) sayEnd(pod *corev1.Pod) {
	end, before := endOf(pod, k.at[pod.UID]), k.lastEnds[pod.UID]
	if sameCondition(end, before) || end == nil && before.Status == corev1.ConditionFalse {
		return
	}
	if end == nil {
		end = &corev1.PodCondition{Type: Ends, Status: corev1.ConditionFalse, Reason: "NoAnnotation"}
	}
	k.lastEnds[pod.UID] = end
	end.LastTransitionTime = metav1.Now()
	k.enqueue(pod, *end)
}

func (k *kubelet) enqueue(pod *corev1.Pod, c corev1.PodCondition) {
	k.enqueueMark(pod, mark{uid: pod.UID, condition: c})
}

func (k *kubelet) enqueueMark(pod *corev1.Pod, m mark) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	k.unsaid[key] = append(k.unsaid[key], m)
	k.queue.Add(key)
}

// write writes queued marks until the queue is shut down.
func (k *kubelet) write(ctx context.Context) {
	for {
		key, shutdown := k.queue.Get()
		if shutdown {
			return
		}
		k.mu.Lock()
		marks := k.unsaid[key]
		delete(k.unsaid, key)
		k.mu.Unlock()
		if err := k.patch(ctx, key, marks); err != nil {
			klog.FromContext(ctx).Error(err, "Could not write the status of a pod", "pod", key)
			k.mu.Lock()
			k.unsaid[key] = append(marks, k.unsaid[key]...)
			k.mu.Unlock()
			k.queue.AddRateLimited(key)
		} else {
			k.queue.Forget(key)
		}
		k.queue.Done(key)
	}
}

// patch writes the marks of one pod, the conditions in one request. A
// pod that is gone, or was replaced by another of its name, needs none.
func (k *kubelet) patch(ctx context.Context, key types.NamespacedName, marks []mark) error {
	if len(marks) == 0 {
		return nil
	}
	uid := marks[len(marks)-1].uid
	byType := map[corev1.PodConditionType]corev1.PodCondition{}
	var resized *mark
	for _, m := range marks {
		switch {
		case m.uid != uid:
		case m.resize != nil:
			resized = &m
		default:
			byType[m.condition.Type] = m.condition
		}
	}
	if resized != nil {
		if err := k.writeResize(ctx, *resized); err != nil || len(byType) == 0 {
			return err
		}
	}
	conditions := make([]corev1.PodCondition, 0, len(byType))
	for _, c := range byType {
		conditions = append(conditions, c)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = k.client.CoreV1().Pods(key.Namespace).Patch(ctx, key.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // conflict: another uid
		return nil
	}
	return err
}
