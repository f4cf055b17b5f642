package podgroup

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// evict evicts the pods that are in these sets now, with the eviction API, which respects
// PodDisruptionBudgets. It remembers the last error. It returns the time after which to reconcile
// the group again. If the error differs from the one before, this is at once, because the condition
// has to show it.
//
// A Job counts an evicted pod as failed unless its podFailurePolicy ignores
// the pod condition DisruptionTarget. Nothing creates a bare pod again.
func (r *reconciler) evict(ctx context.Context, o observation, pods []podSet, m memory) time.Duration {
	refused := ""
	for _, pod := range r.pods.all(pods) {
		err := r.evictPod(ctx, pod)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			// The pod is gone already.
		case err != nil:
			r.metrics.eviction(outcomeRefused)
			refused = clip(fmt.Sprintf("pod %s: %v", pod.Name, err))
		default:
			r.metrics.eviction(outcomeEvicted)
			klog.FromContext(ctx).V(2).Info("Evicted pod of incomplete group", "pod", klog.KObj(pod))
		}
	}
	if refused == m.shortfall.evictError {
		return m.shortfall.delay
	}
	m.shortfall.evictError = refused
	r.remember(o.key, m)
	return time.Millisecond
}

// evictPod evicts a pod with the eviction API.
func (r *reconciler) evictPod(ctx context.Context, pod *corev1.Pod) error {
	return r.client.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(pod.UID)}},
	})
}
