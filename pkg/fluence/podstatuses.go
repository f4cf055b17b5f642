package fluence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

const (
	// podStatusWriters is how many statuses of pods are written at a time.
	podStatusWriters = 2
	// podStatusTries is how often one is written that the API server refuses.
	podStatusTries = 3
	// podStatusFirst and podStatusMost bound the time from one try to the next.
	podStatusFirst, podStatusMost = 100 * time.Millisecond, time.Second
)

// podStatuses writes what the scheduler has to say of pods that could not be placed. The scheduling
// loop does not wait for the API server: whoever has many pods that are refused, each time in other
// words, would hold up all others by that. Of one pod only the last words are written.
//
// It is what the failure handler takes for the framework's cache of API calls.
type podStatuses struct {
	client kubernetes.Interface
	pods   func() corelisters.PodLister
	failed func()
	queue  workqueue.TypedRateLimitingInterface[types.UID]

	mu    sync.Mutex
	items map[types.UID]podStatus
}

// A podStatus is what is to be said of one pod.
type podStatus struct {
	pod       types.NamespacedName
	condition *corev1.PodCondition
	// nominated is the node that the pod is to be nominated for; nil leaves that as it is.
	nominated *string
}

func newPodStatuses(client kubernetes.Interface, pods func() corelisters.PodLister, failed func()) *podStatuses {
	return &podStatuses{
		client: client, pods: pods, failed: failed, items: map[types.UID]podStatus{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](podStatusFirst, podStatusMost)),
	}
}

// PatchPodStatus implements framework.APICacher. It returns at once, and no channel: nobody waits.
func (s *podStatuses) PatchPodStatus(pod *corev1.Pod, conditions []*corev1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	is := podStatus{pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}}
	for _, c := range conditions {
		if c.Type == corev1.PodScheduled {
			is.condition = c
		}
	}
	if nominating.Mode() == fwk.ModeOverride {
		is.nominated = &nominating.NominatedNodeName
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[pod.UID] = is
	s.queue.Add(pod.UID)
	return nil, nil
}

// BindPod implements framework.APICacher. Nobody calls it: pods are bound by Bind.
func (s *podStatuses) BindPod(*corev1.Binding) (<-chan error, error) {
	return nil, errors.New("statuses alone are written here")
}

// WaitOnFinish implements framework.APICacher.
func (s *podStatuses) WaitOnFinish(context.Context, <-chan error) error { return nil }

// run writes until the queue is shut down. What is written when ctx ends is given up.
func (s *podStatuses) run(ctx context.Context) {
	for range podStatusWriters {
		go func() {
			for s.next(ctx) {
			}
		}()
	}
}

// next writes one status. It is false when there are to be no more.
func (s *podStatuses) next(ctx context.Context) bool {
	uid, down := s.queue.Get()
	if down {
		return false
	}
	defer s.queue.Done(uid)
	is := s.take(uid)
	again, err := s.write(ctx, uid, is)
	switch {
	case ctx.Err() != nil:
	case again && s.queue.NumRequeues(uid) < podStatusTries-1:
		s.putBack(uid, is)
		return true
	case err != nil:
		s.failed()
		klog.FromContext(ctx).Error(err, "Tell a pod why it waits", "pod", is.pod)
	}
	s.queue.Forget(uid)
	return true
}

func (s *podStatuses) take(uid types.UID) podStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.items[uid]
	delete(s.items, uid)
	return is
}

// putBack has a status be written after a while, unless there is a newer one.
func (s *podStatuses) putBack(uid types.UID, is podStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, newer := s.items[uid]; !newer {
		s.items[uid] = is
	}
	s.queue.AddRateLimited(uid)
}

// write writes a status onto the pod as it was seen. Again is true if the pod has changed meanwhile
// or the API server failed. Nothing is written on a pod that has a node or is gone.
func (s *podStatuses) write(ctx context.Context, uid types.UID, is podStatus) (again bool, err error) {
	pod, err := s.pods().Pods(is.pod.Namespace).Get(is.pod.Name)
	if err != nil || pod.UID != uid || pod.Spec.NodeName != "" {
		return false, nil
	}
	status := map[string]any{}
	if is.nominated != nil && *is.nominated != pod.Status.NominatedNodeName {
		if status["nominatedNodeName"] = nil; *is.nominated != "" {
			status["nominatedNodeName"] = *is.nominated
		}
	}
	if next := pod.Status.DeepCopy(); is.condition != nil && podutil.UpdatePodCondition(next, is.condition.DeepCopy()) {
		_, c := podutil.GetPodCondition(next, corev1.PodScheduled)
		status["conditions"] = []corev1.PodCondition{*c}
	}
	if len(status) == 0 {
		return false, nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid, "resourceVersion": pod.ResourceVersion}, "status": status,
	})
	if err != nil {
		return false, fmt.Errorf("encode the status of a pod: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = s.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsConflict(err):
		// It may have a node by now, which is seen in a moment.
		return true, nil
	}
	return true, fmt.Errorf("patch the status of a pod: %w", err)
}
