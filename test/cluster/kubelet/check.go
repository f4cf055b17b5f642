package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"
)

// tell queues verdicts on a node's pods, and a check of
// the node if it is in doubt. The caller holds the lock.
func (k *kubelet) tell(ctx context.Context, node string, verdicts []verdict) {
	for _, v := range verdicts {
		k.say(ctx, v)
	}
	if k.ledger.inDoubt(node) {
		k.doubts.Add(node)
	}
}

// check settles nodes in doubt until the queue is shut down.
func (k *kubelet) check(ctx context.Context) {
	for {
		node, shutdown := k.doubts.Get()
		if shutdown {
			return
		}
		if err := k.settle(ctx, node); err != nil {
			klog.FromContext(ctx).Error(err, "Could not settle a node", "node", node)
			k.doubts.AddRateLimited(node)
		} else {
			k.doubts.Forget(node)
		}
		k.doubts.Done(node)
	}
}

// settle asks the API server which pods a node has, because its kubelet would
// know. The watch may be late by any time: after it was closed and begun anew, it
// delivers new pods before the removal of pods that went meanwhile. The list reads
// the most recent state, not a state that the server's cache happens to have.
func (k *kubelet) settle(ctx context.Context, node string) error {
	k.mu.Lock()
	doubt, before := k.ledger.inDoubt(node), k.ledger.roster(node)
	k.mu.Unlock()
	if !doubt {
		return nil
	}
	listCtx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := k.client.CoreV1().Pods(metav1.NamespaceAll).List(listCtx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return fmt.Errorf("list the pods of a node: %w", err)
	}
	listed := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		listed[i] = &list.Items[i]
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tell(ctx, node, k.ledger.settle(node, before, listed))
	return nil
}
