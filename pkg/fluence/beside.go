package fluence

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/reason"
)

const (
	// besideEvery is how often the pods are looked through that wait beside the one
	// that asks: what they are told has lasted for as long.
	besideEvery = 5 * time.Second
	// besidePause is the least time between two writes, for there may be many.
	besidePause = 20 * time.Millisecond
)

// tellBesides has all pods of a group that finds no room say so, not only the one that
// asks, until ctx ends. The scheduler itself writes nothing on pods that PreEnqueue
// holds, and autoscalers make room for those pods only that have a condition
// PodScheduled=False. Numbers alone are not written again.
func (pl *Fluence) tellBesides(ctx context.Context, leading func() bool) {
	t := time.NewTicker(besideEvery)
	defer t.Stop()
	lasting := map[types.NamespacedName]string{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		leads := leading()
		pl.leads.Store(leads)
		if !leads {
			continue
		}
		now := map[types.NamespacedName]string{}
		for _, b := range pl.groups.Besides(pl.now()) {
			now[b.Key] = b.Reason
			if lasting[b.Key] != b.Reason || !mayTell(b) {
				continue
			}
			if err := tellPod(ctx, pl.handle.ClientSet(), b); err != nil && ctx.Err() == nil {
				pl.counters.failed(writesPod)
				klog.FromContext(ctx).Error(err, "Tell a pod why its group waits", "pod", klog.KObj(b.Pod))
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(besidePause):
			}
		}
		lasting = now
	}
}

// mayTell says whether a pod is to be told: that there is no room, or what has become
// of that. More room would not help with the rest.
func mayTell(b gang.Beside) bool {
	for _, c := range b.Pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Status == corev1.ConditionFalse && gist(c.Message) != gist(b.Message)
		}
	}
	return reason.Of(b.Reason).LacksRoom
}

// tellPod writes the condition onto a pod as it was seen, and leaves it at that if it
// has changed meanwhile: it may have a node now.
func tellPod(ctx context.Context, client kubernetes.Interface, b gang.Beside) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": b.Pod.UID, "resourceVersion": b.Pod.ResourceVersion},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable, Message: b.Message,
			LastTransitionTime: metav1.Now(), ObservedGeneration: b.Pod.Generation,
		}}},
	})
	if err != nil {
		return fmt.Errorf("encode the status of a pod: %w", err)
	}
	_, err = client.CoreV1().Pods(b.Pod.Namespace).Patch(ctx, b.Pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("patch the status of a pod: %w", err)
	}
	return nil
}
