package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/flux-k8s/fluence/pkg/fairqueue"
)

const (
	// podStatusWriters is how many statuses of pods are written at a time.
	podStatusWriters = 2
	// podStatusFirst is the time to the next try of one that the API server refuses. It doubles up
	// to podStatusMost, or up to podStatusLook where only the pod is to be seen as it is by now.
	podStatusFirst, podStatusMost, podStatusLook = 100 * time.Millisecond, 30 * time.Second, time.Second
	// podStatusMaxLag is how long a pod is taken to be newer than it is seen after a write, and
	// podStatusConflictLag how long after a conflict, which may have another cause.
	podStatusMaxLag, podStatusConflictLag = time.Minute, 10 * time.Second
	// podStatusLog is the least time between two lines in the log about writes that failed.
	podStatusLog = 10 * time.Second
)

// PodStatusWriter writes what the scheduler has to say of pods that could not be placed. The scheduling
// loop does not wait for the API server: whoever has many pods that are refused, each time in other
// words, would hold up all others by that. Namespaces take turns. Of one pod only the last words are
// written, and these until they stand there, the pod has a node or is gone, or newer ones replace
// them.
//
// It is what the failure handler takes for the framework's cache of API calls.
type PodStatusWriter struct {
	client kubernetes.Interface
	pods   func() corelisters.PodLister
	failed func()
	order  *fairqueue.RoundRobin[podKey]
	queue  workqueue.TypedDelayingInterface[podKey]

	mu    sync.Mutex
	items map[podKey]podStatus
	// newer are the pods that may be newer than they are seen.
	newer   map[types.UID]newerPod
	sweepAt time.Time
	// nextLogAt is when a write that fails is logged next, and unsaid how many were not.
	nextLogAt        time.Time
	failuresSinceLog int
}

// A podKey is a pod that is to be told something.
type podKey struct {
	namespace string
	uid       types.UID
}

// A podStatus is what is to be said of one pod.
type podStatus struct {
	name      string
	condition *corev1.PodCondition
	// nominated is the node that the pod is to be nominated for; nil leaves that as it is.
	nominated *string
	// urgent says that more than words are another than the pod has.
	urgent bool
	// failures counts the tries in a row that failed, and looks those for which the pod was not seen
	// as it is.
	failures, looks int
}

// A newerPod says from which resourceVersion on a pod is seen as it is.
type newerPod struct {
	version string
	// tooOld says that this version is too old itself.
	tooOld bool
	until  time.Time
}

// isNewerThan says whether the pod is newer than a version of it.
func (n newerPod) isNewerThan(version string) bool {
	c, err := resourceversion.CompareResourceVersion(version, n.version)
	if err != nil {
		return n.tooOld && version == n.version
	}
	return c < 0 || n.tooOld && c == 0
}

// NewPodStatusWriter returns a writer of statuses that has nothing to write yet. Pods lists those of the
// scheduler's cache. Failed is told of each write that failed.
func NewPodStatusWriter(client kubernetes.Interface, pods func() corelisters.PodLister, failed func()) *PodStatusWriter {
	order := fairqueue.NewRoundRobin(func(k podKey) string { return k.namespace })
	return &PodStatusWriter{
		client: client, pods: pods, failed: failed, order: order, queue: fairqueue.NewDelaying("", order),
		items: map[podKey]podStatus{}, newer: map[types.UID]newerPod{},
	}
}

// PatchPodStatus implements framework.APICacher. It returns at once, and no channel: nobody waits.
func (s *PodStatusWriter) PatchPodStatus(pod *corev1.Pod, conditions []*corev1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	is := podStatus{name: pod.Name}
	for _, c := range conditions {
		if c.Type == corev1.PodScheduled {
			is.condition = c
			_, old := podutil.GetPodCondition(&pod.Status, c.Type)
			is.urgent = old == nil || old.Status != c.Status || old.Reason != c.Reason
		}
	}
	if nominating.Mode() == fwk.ModeOverride {
		is.nominated = &nominating.NominatedNodeName
	}
	k := podKey{pod.Namespace, pod.UID}
	s.mu.Lock()
	defer s.mu.Unlock()
	is = s.put(k, s.items[k], is)
	if is.urgent {
		s.order.MarkUrgent(k)
	}
	s.queue.Add(k)
	return nil, nil
}

// put keeps what is to be said of a pod. What newer words leave as it is stays of the older ones.
func (s *PodStatusWriter) put(k podKey, older, newer podStatus) podStatus {
	if newer.condition == nil {
		newer.condition, newer.urgent = older.condition, older.urgent
	}
	if newer.nominated == nil {
		newer.nominated = older.nominated
	}
	s.items[k] = newer
	return newer
}

// BindPod implements framework.APICacher. Nobody calls it: pods are bound by Bind.
func (s *PodStatusWriter) BindPod(*corev1.Binding) (<-chan error, error) {
	return nil, errors.New("statuses alone are written here")
}

// WaitOnFinish implements framework.APICacher.
func (s *PodStatusWriter) WaitOnFinish(context.Context, <-chan error) error { return nil }

// Stop has all end that Run began. It may be called before that.
func (s *PodStatusWriter) Stop() { s.queue.ShutDown() }

// Run begins to write, until Stop is called. What is written when ctx ends is given up.
func (s *PodStatusWriter) Run(ctx context.Context) {
	for range podStatusWriters {
		go func() {
			for s.next(ctx) {
			}
		}()
	}
}

// next writes one status. It is false when there are to be no more.
func (s *PodStatusWriter) next(ctx context.Context) bool {
	k, down := s.queue.Get()
	if down {
		return false
	}
	defer s.queue.Done(k)
	is, ok := s.take(k)
	if !ok {
		// It was said before its next try was due.
		return true
	}
	again, err := s.write(ctx, k, is)
	switch {
	case ctx.Err() != nil || !again && err == nil:
	case err != nil:
		s.logFailure(ctx, k, is, err)
		is.failures, is.looks = is.failures+1, 0
		s.putBack(k, is, doubled(is.failures, podStatusMost))
	default:
		is.looks++
		s.putBack(k, is, doubled(is.looks, podStatusLook))
	}
	return true
}

// doubled is how long is waited after so many tries.
func doubled(tries int, most time.Duration) time.Duration {
	return min(most, podStatusFirst<<min(tries-1, 10))
}

func (s *PodStatusWriter) take(k podKey) (is podStatus, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is, ok = s.items[k]
	delete(s.items, k)
	return is, ok
}

// putBack has a status be written after a while, unless there is a newer one, which is queued.
func (s *PodStatusWriter) putBack(k podKey, is podStatus, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if newer, ok := s.items[k]; ok {
		s.put(k, is, newer)
		return
	}
	s.items[k] = is
	if is.urgent {
		s.order.MarkUrgent(k)
	}
	s.queue.AddAfter(k, after)
}

// logFailure counts a write that failed. Of those that fail in a while the first is logged.
func (s *PodStatusWriter) logFailure(ctx context.Context, k podKey, is podStatus, err error) {
	s.failed()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failuresSinceLog++
	if now := time.Now(); !now.Before(s.nextLogAt) {
		klog.FromContext(ctx).Error(err, "Tell a pod why it waits", "pod", klog.KRef(k.namespace, is.name), "failures", s.failuresSinceLog)
		s.failuresSinceLog, s.nextLogAt = 0, now.Add(podStatusLog)
	}
}

// isNewer says whether a pod is newer than a version of it that is seen.
func (s *PodStatusWriter) isNewer(uid types.UID, version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.newer[uid]
	if ok && (!n.isNewerThan(version) || !time.Now().Before(n.until)) {
		delete(s.newer, uid)
		return false
	}
	return ok
}

// setNewer takes note that a pod is newer than it was seen.
func (s *PodStatusWriter) setNewer(uid types.UID, n newerPod, during time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !now.Before(s.sweepAt) {
		maps.DeleteFunc(s.newer, func(_ types.UID, old newerPod) bool { return !now.Before(old.until) })
		s.sweepAt = now.Add(podStatusMaxLag)
	}
	n.until = now.Add(during)
	s.newer[uid] = n
}

// write writes a status onto the pod as it was seen. Again is true if the pod has changed meanwhile,
// or is not seen yet as it was written last, or the API server failed. Nothing is written on a pod
// that has a node or is gone.
func (s *PodStatusWriter) write(ctx context.Context, k podKey, is podStatus) (again bool, err error) {
	pod, err := s.pods().Pods(k.namespace).Get(is.name)
	if err != nil || pod.UID != k.uid || pod.Spec.NodeName != "" {
		return false, nil
	}
	if s.isNewer(k.uid, pod.ResourceVersion) {
		// Whether there is something to write cannot be told.
		return true, nil
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
		"metadata": map[string]any{"uid": k.uid, "resourceVersion": pod.ResourceVersion}, "status": status,
	})
	if err != nil {
		return false, fmt.Errorf("encode the status of a pod: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	written, err := s.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		s.setNewer(k.uid, newerPod{version: written.ResourceVersion}, podStatusMaxLag)
		return false, nil
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsConflict(err):
		// It may have a node by now, which is seen in a moment.
		s.setNewer(k.uid, newerPod{version: pod.ResourceVersion, tooOld: true}, podStatusConflictLag)
		return true, nil
	}
	return true, fmt.Errorf("patch the status of a pod: %w", err)
}
