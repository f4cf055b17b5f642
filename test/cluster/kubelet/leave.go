package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	// deletionTakes is how long a pod that is being deleted stays on its node. With real kubelets controllers
	// see that a pod is being deleted before it is gone, and some act on that.
	deletionTakes = 200 * time.Millisecond
	// removers is the number of pods removed at a time.
	removers = 16
)

// leave queues the removal of a pod that is being deleted. A pod whose grace period
// is zero was removed already, and waits for its finalizers. One that lingers stays. The caller holds the lock.
func (k *kubelet) leave(pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil || ptr.Deref(pod.DeletionGracePeriodSeconds, 0) == 0 {
		return
	}
	if _, lingers := pod.Annotations[Lingers]; lingers {
		return
	}
	if _, known := k.leaving[pod.UID]; known {
		return
	}
	k.leaving[pod.UID] = pod
	k.removals.AddAfter(pod.UID, deletionTakes)
}

// remove removes pods until the queue is shut down.
func (k *kubelet) remove(ctx context.Context) {
	for {
		uid, shutdown := k.removals.Get()
		if shutdown {
			return
		}
		k.mu.Lock()
		pod := k.leaving[uid]
		k.mu.Unlock()
		if pod != nil {
			if err := k.delete(ctx, pod); err != nil {
				klog.FromContext(ctx).Error(err, "Could not remove a pod", "pod", klog.KObj(pod))
				k.removals.AddRateLimited(uid)
			} else {
				k.removals.Forget(uid)
			}
		}
		k.removals.Done(uid)
	}
}

// delete removes a pod from the API server. The request names the UID,
// as a kubelet's does: another pod may already have the pod's name.
func (k *kubelet) delete(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // conflict: another uid
		return nil
	}
	return err
}
