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
	// podStatusWriters is how many statuses are written at the same time.
	podStatusWriters = 2
	// minPodStatusDelay is the delay before the first retry. The delay doubles with each retry: after
	// failed writes up to maxPodStatusDelay, and while the cached pod is outdated up to maxStaleDelay.
	minPodStatusDelay, maxPodStatusDelay, maxStaleDelay = 100 * time.Millisecond, 30 * time.Second, time.Second
	// podStatusMaxLag is for how long the cached pod may count as outdated after a write.
	// podStatusConflictLag is the same after a conflict, which may have another cause.
	podStatusMaxLag, podStatusConflictLag = time.Minute, 10 * time.Second
	// podStatusLogInterval is the minimum time between two log lines about writes that failed.
	podStatusLogInterval = 10 * time.Second
)

// A PodStatusWriter writes the statuses of pods that could not be scheduled. It
// writes in the background: otherwise a namespace with many unschedulable pods, whose
// messages change each time, would hold up the scheduling loop. Namespaces take
// turns. Of one pod only the latest status is written, and one that changes only numbers in the
// message not sooner than messageInterval after the one before, and within numbersRate. It is retried until it is
// stored, until a newer one replaces it, or until the pod has a node or is gone.
//
// It implements framework.APICacher, through which kube-scheduler's failure handler writes.
type PodStatusWriter struct {
	client  kubernetes.Interface
	pods    func() corelisters.PodLister
	failed  func()
	order   *fairqueue.RoundRobin[podKey]
	queue   workqueue.TypedDelayingInterface[podKey]
	numbers numbersLimits

	mu    sync.Mutex
	items map[podKey]podStatus
	// staleness holds the pods whose cached objects may be outdated.
	staleness map[types.UID]staleness
	// written holds the pods whose condition was written lately.
	written map[types.UID]conditionWrite
	sweepAt time.Time
	// nextLogAt is when the next write that fails is logged.
	nextLogAt time.Time
	// failuresSinceLog counts the writes that failed since the last log line.
	failuresSinceLog int
}

// A podKey is a pod with a status to write.
type podKey struct {
	namespace string
	uid       types.UID
}

// A podStatus is what is to be written on one pod.
type podStatus struct {
	name string
	// condition is the condition PodScheduled. Nil leaves it as it is.
	condition *corev1.PodCondition
	// nominated is the node that the pod is nominated to. Nil leaves it as it is.
	nominated *string
	// urgent says that the status or the reason of the condition changes, and not only its message.
	urgent bool
	// notBefore is until when a write that changes only numbers was put off, because there are too many. It is
	// zero if it was not.
	notBefore time.Time
	// failures counts the writes that failed. staleTries counts the tries since the last
	// of them that found the cached pod outdated.
	failures, staleTries int
}

// A conditionWrite is when the condition of a pod was last written, and how
// many writes in a row, up to it, changed only the message.
type conditionWrite struct {
	at          time.Time
	messageOnly int
}

// A staleness says which versions of a cached pod are outdated.
type staleness struct {
	// version is the first version that is up to date.
	version string
	// inclusive says that version is outdated, too.
	inclusive bool
	// until is when the cached pod counts as up to date, whatever its version.
	until time.Time
}

// isStale reports whether a cached pod of this version is outdated. If the versions cannot
// be compared, the cached pod is outdated only if the versions are equal and inclusive is set.
func (n staleness) isStale(version string) bool {
	c, err := resourceversion.CompareResourceVersion(version, n.version)
	if err != nil {
		return n.inclusive && version == n.version
	}
	return c < 0 || n.inclusive && c == 0
}

// NewPodStatusWriter returns a PodStatusWriter with nothing to write. pods returns
// the lister of the cached pods. failed is called for each write that failed.
func NewPodStatusWriter(client kubernetes.Interface, pods func() corelisters.PodLister, failed func()) *PodStatusWriter {
	order := fairqueue.NewRoundRobin(func(k podKey) string { return k.namespace })
	return &PodStatusWriter{
		client: client, pods: pods, failed: failed, order: order, queue: fairqueue.NewDelayingQueue("", order),
		items: map[podKey]podStatus{}, staleness: map[types.UID]staleness{}, written: map[types.UID]conditionWrite{},
	}
}

// PatchPodStatus implements framework.APICacher. It queues the status and returns at
// once. The channel is nil, because nothing waits for the write.
func (s *PodStatusWriter) PatchPodStatus(pod *corev1.Pod, conditions []*corev1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	status := podStatus{name: pod.Name}
	for _, c := range conditions {
		if c.Type == corev1.PodScheduled {
			status.condition = c
			_, old := podutil.GetPodCondition(&pod.Status, c.Type)
			status.urgent = old == nil || old.Status != c.Status || old.Reason != c.Reason
		}
	}
	if nominating.Mode() == fwk.ModeOverride {
		status.nominated = &nominating.NominatedNodeName
	}
	k := podKey{pod.Namespace, pod.UID}
	s.mu.Lock()
	defer s.mu.Unlock()
	status = s.put(k, s.items[k], status)
	if status.urgent {
		s.order.MarkUrgent(k)
	}
	s.queue.Add(k)
	return nil, nil
}

// put stores and returns the status to write on a pod. Fields that newer leaves unset
// are taken from older.
func (s *PodStatusWriter) put(k podKey, older, newer podStatus) podStatus {
	if newer.condition == nil {
		newer.condition, newer.urgent = older.condition, older.urgent
	}
	if newer.nominated == nil {
		newer.nominated = older.nominated
	}
	if newer.notBefore.IsZero() {
		newer.notBefore = older.notBefore
	}
	s.items[k] = newer
	return newer
}

// BindPod implements framework.APICacher. It is never called, because the Bind plugin binds pods.
func (s *PodStatusWriter) BindPod(*corev1.Binding) (<-chan error, error) {
	return nil, errors.New("binds are not written here: the plugin Bind binds pods")
}

// WaitOnFinish implements framework.APICacher.
func (s *PodStatusWriter) WaitOnFinish(context.Context, <-chan error) error { return nil }

// Stop ends the writers that Run starts. It may be called before Run.
func (s *PodStatusWriter) Stop() { s.queue.ShutDown() }

// Run starts the writers and returns. They run until Stop. A write in progress is
// abandoned when ctx ends.
func (s *PodStatusWriter) Run(ctx context.Context) {
	for range podStatusWriters {
		go func() {
			for s.next(ctx) {
			}
		}()
	}
}

// next writes one status. It returns false once Stop was called.
func (s *PodStatusWriter) next(ctx context.Context) bool {
	k, down := s.queue.Get()
	if down {
		return false
	}
	defer s.queue.Done(k)
	is, ok := s.take(k)
	if !ok {
		// The status was written before its retry was due.
		return true
	}
	retry, err := s.write(ctx, k, is)
	switch {
	case ctx.Err() != nil || !retry && err == nil:
	case err != nil:
		s.logFailure(ctx, k, is, err)
		is.failures, is.staleTries = is.failures+1, 0
		s.putBack(k, is, doubled(is.failures, maxPodStatusDelay))
	default:
		is.staleTries++
		s.putBack(k, is, doubled(is.staleTries, maxStaleDelay))
	}
	return true
}

// doubled returns the time to the next retry after this many tries.
func doubled(tries int, most time.Duration) time.Duration {
	return min(most, minPodStatusDelay<<min(tries-1, 10))
}

func (s *PodStatusWriter) take(k podKey) (is podStatus, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is, ok = s.items[k]
	delete(s.items, k)
	return is, ok
}

// putBack queues a status to be written after a delay. If a newer status is queued,
// putBack only fills in the fields that the newer one leaves unset.
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

// logFailure counts a write that failed. It logs the first one, and later at most one
// every podStatusLogInterval.
func (s *PodStatusWriter) logFailure(ctx context.Context, k podKey, is podStatus, err error) {
	s.failed()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failuresSinceLog++
	if now := time.Now(); !now.Before(s.nextLogAt) {
		klog.FromContext(ctx).Error(err, "Failed to write to a pod why it waits", "pod", klog.KRef(k.namespace, is.name), "failuresSinceLastLog", s.failuresSinceLog)
		s.failuresSinceLog, s.nextLogAt = 0, now.Add(podStatusLogInterval)
	}
}

// changesNumbersOnly reports whether the message of a condition differs from the
// pod's in numbers only: see StableText.
func changesNumbersOnly(pod *corev1.Pod, c *corev1.PodCondition) bool {
	_, old := podutil.GetPodCondition(&pod.Status, c.Type)
	return old != nil && StableText(old.Message) == StableText(c.Message)
}

// untilNextMessage returns how long a write that changes only the numbers of a message has to
// wait. It comes as long after the write before as a write of a PodGroup's message.
func (s *PodStatusWriter) untilNextMessage(uid types.UID) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, there := s.written[uid]
	if !there {
		return 0
	}
	return messageInterval(was.messageOnly) - time.Since(was.at)
}

// markWritten records that the condition of a pod was written. urgent
// says that the status or the reason of the condition has changed.
func (s *PodStatusWriter) markWritten(uid types.UID, urgent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	messageOnly := 0
	if was, there := s.written[uid]; there && !urgent {
		messageOnly = was.messageOnly + 1
	}
	s.written[uid] = conditionWrite{at: time.Now(), messageOnly: messageOnly}
}

// isCachedPodStale reports whether the cached pod of this version is outdated. It forgets what
// it knows of a pod that is up to date.
func (s *PodStatusWriter) isCachedPodStale(uid types.UID, version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.staleness[uid]
	if ok && (!n.isStale(version) || !time.Now().Before(n.until)) {
		delete(s.staleness, uid)
		return false
	}
	return ok
}

// markStale records that the cached pod is outdated, for at most the time during.
func (s *PodStatusWriter) markStale(uid types.UID, n staleness, during time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !now.Before(s.sweepAt) {
		maps.DeleteFunc(s.staleness, func(_ types.UID, old staleness) bool { return !now.Before(old.until) })
		maps.DeleteFunc(s.written, func(_ types.UID, old conditionWrite) bool { return now.Sub(old.at) > 2*maxMessageInterval })
		s.sweepAt = now.Add(podStatusMaxLag)
	}
	n.until = now.Add(during)
	s.staleness[uid] = n
}

// write patches the status of a pod, provided that the pod still has the cached
// version. retry is true if the cached pod is outdated, the pod has changed meanwhile,
// or the request failed. A pod that has a node or is gone is left as it is.
func (s *PodStatusWriter) write(ctx context.Context, k podKey, is podStatus) (retry bool, err error) {
	pod, err := s.pods().Pods(k.namespace).Get(is.name)
	if err != nil || pod.UID != k.uid || pod.Spec.NodeName != "" {
		return false, nil
	}
	if s.isCachedPodStale(k.uid, pod.ResourceVersion) {
		// The cached pod does not show whether there is something to write.
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
	if _, nominates := status["nominatedNodeName"]; !nominates && !is.urgent && changesNumbersOnly(pod, is.condition) {
		left := s.untilNextMessage(k.uid)
		if left <= 0 {
			if is.notBefore = s.numbers.next(k.namespace, is.notBefore); !is.notBefore.IsZero() {
				left = time.Until(is.notBefore)
			}
		}
		if left > 0 {
			s.putBack(k, is, left)
			return false, nil
		}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": k.uid, "resourceVersion": pod.ResourceVersion}, "status": status,
	})
	if err != nil {
		return false, fmt.Errorf("encode the status of a pod: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	written, err := s.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{FieldManager: FieldManager}, "status")
	switch {
	case err == nil:
		s.markStale(k.uid, staleness{version: written.ResourceVersion}, podStatusMaxLag)
		if status["conditions"] != nil {
			s.markWritten(k.uid, is.urgent)
		}
		return false, nil
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsConflict(err):
		// The pod may have a node by now, which the cache will show in a moment.
		s.markStale(k.uid, staleness{version: pod.ResourceVersion, inclusive: true}, podStatusConflictLag)
		return true, nil
	}
	return true, fmt.Errorf("patch the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
}
