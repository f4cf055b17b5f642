package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
)

// A resize is the resources in a running pod's status: what
// its containers have, and why that differs from the spec.
type resize struct {
	containers []corev1.ResourceRequirements // in the order of the spec
	// pending is empty if the containers have what the spec requests.
	// Otherwise it is PodReasonDeferred or PodReasonInfeasible.
	pending string
}

// resizeOf returns what the status of a running pod should show, if its containers request other
// resources than they have. It returns nil if the status is right already, or shows no resources.
func (l *ledger) resizeOf(pod *corev1.Pod) *resize {
	have, ok := reportedBy(pod)
	if !ok {
		return nil
	}
	r := &resize{containers: askedFor(pod)}
	if !equality.Semantic.DeepEqual(have, r.containers) {
		if r.pending = l.shortOf(pod); r.pending != "" {
			r.containers = have
		}
	}
	if r.pending == pendingBy(pod) && equality.Semantic.DeepEqual(have, r.containers) {
		return nil
	}
	return r
}

// shortOf returns why a pod cannot have what its spec requests, "" if it can.
func (l *ledger) shortOf(pod *corev1.Pod) string {
	a, held := l.account(pod.Spec.NodeName), l.pods[pod.UID]
	reason := ""
	asked := amountsOf(resource.PodRequests(pod, resource.PodResourcesOptions{}))
	allocated := amountsOf(resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true}))
	for name, n := range asked {
		switch others := a.used[name] - held.amounts[name]; {
		case n > a.capacity[name]:
			return corev1.PodReasonInfeasible
		case others+n > a.capacity[name] && n >= allocated[name]:
			reason = corev1.PodReasonDeferred
		}
	}
	return reason
}

// askedFor returns the requests and limits of a pod's containers by its spec.
func askedFor(pod *corev1.Pod) []corev1.ResourceRequirements {
	var out []corev1.ResourceRequirements
	for _, c := range pod.Spec.Containers {
		out = append(out, corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits})
	}
	return out
}

// reportedBy returns the requests and limits of a pod's containers
// by its status. It returns false if the status has none.
func reportedBy(pod *corev1.Pod) (have []corev1.ResourceRequirements, ok bool) {
	for _, c := range pod.Spec.Containers {
		at := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if at < 0 || pod.Status.ContainerStatuses[at].Resources == nil {
			return nil, false
		}
		r := pod.Status.ContainerStatuses[at].Resources
		have = append(have, corev1.ResourceRequirements{Requests: r.Requests, Limits: r.Limits})
	}
	return have, true
}

func pendingBy(pod *corev1.Pod) string {
	if c := condition(pod, corev1.PodResizePending); c != nil {
		return c.Reason
	}
	return ""
}

// settleResize queues the write of a running pod's resources,
// if its status is not right. The caller holds the lock.
func (k *kubelet) settleResize(pod *corev1.Pod) {
	delete(k.deferred, pod.UID)
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		return
	}
	r := k.ledger.resizeOf(pod)
	if r != nil {
		k.enqueueMark(pod, mark{uid: pod.UID, pod: pod, resize: r})
	}
	if pendingBy(pod) == corev1.PodReasonDeferred || r != nil && r.pending == corev1.PodReasonDeferred {
		k.deferred[pod.UID] = pod
	}
}

// settleDeferred looks again at the pods of a node whose resize
// waits, because there may be room now. The caller holds the lock.
func (k *kubelet) settleDeferred(node string) {
	for _, pod := range k.deferred {
		if pod.Spec.NodeName == node {
			k.settleResize(pod)
		}
	}
}

// writeResize writes the result of a resize. If the pod has changed
// meanwhile it writes nothing, because another event will come.
func (k *kubelet) writeResize(ctx context.Context, m mark) error {
	containers := slices.Clone(m.pod.Status.ContainerStatuses)
	for i, c := range m.pod.Spec.Containers {
		for at := range containers {
			if containers[at].Name == c.Name {
				has := m.resize.containers[i]
				containers[at].Resources, containers[at].AllocatedResources = &has, has.Requests
			}
		}
	}
	conditions := slices.DeleteFunc(slices.Clone(m.pod.Status.Conditions), func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	if m.resize.pending != "" {
		conditions = append(conditions, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: m.resize.pending, LastTransitionTime: metav1.Now(),
			Message: "Node didn't have enough resource",
		})
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": m.uid, "resourceVersion": m.pod.ResourceVersion},
		"status":   map[string]any{"containerStatuses": containers, "conditions": conditions},
	})
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = k.client.CoreV1().Pods(m.pod.Namespace).Patch(ctx, m.pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
