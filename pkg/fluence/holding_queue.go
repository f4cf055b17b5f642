package fluence

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/flux-k8s/fluence/pkg/gang"
)

// holdingQueue wraps a scheduling queue, and holds the pods that only Fluence can move. Fluence's
// PreEnqueue does not let these pods pass, or Fluence alone has rejected them. Fluence registers for no
// cluster events, so these pods wait for Activate. The wrapped queue would still look at each of
// them for each event, under the lock that all pods need: with many pods waiting, most of a
// scheduler's time. It has all other pods.
//
// Its methods answer for the pods that it holds as the wrapped queue would, and so do the metrics
// of the queue. Only kube-scheduler's own cache debugger (SIGUSR2) has the wrapped queue, and
// reports the pods that are held as missing.
type holdingQueue struct {
	internalqueue.SchedulingQueue
	profile string
	plugin  queuePlugin
	// pods has the pods that the API server shows.
	pods corelisters.PodLister

	// mu is taken before the locks of the wrapped queue, so that a pod is in one of the two at any time.
	mu   sync.Mutex
	held map[types.UID]*heldPod
	// inFlight are the pods that were popped and are not done. The value says whether the pod
	// was activated since. Then it goes to the wrapped queue, which queues it after a backoff.
	inFlight map[types.UID]bool
	// attempted are the pods in the wrapped queue that had attempts
	// before they were held. Pop gives them their parameters back.
	attempted map[types.UID]schedulerframework.QueueingParams
}

// A queuePlugin is what the queue asks of the plugin whose pods it holds.
type queuePlugin interface {
	// PreEnqueue is the plugin's extension point.
	PreEnqueue(context.Context, *corev1.Pod) *fwk.Status
	// podRank is the place of one of its pods in the queue.
	podRank(*corev1.Pod) gang.Rank
	// flushActivations returns once the queue has all pods that were to be activated. It is called before each Pop.
	flushActivations(context.Context)
}

// A heldPod is a pod that is held, with what the wrapped queue knows of a pod.
type heldPod struct {
	pod *corev1.Pod
	// params are the parameters after an attempt. They are zero before the first.
	params schedulerframework.QueueingParams
	// gated says that PreEnqueue holds the pod. Otherwise an attempt has failed.
	gated bool
}

func newHoldingQueue(inner internalqueue.SchedulingQueue, profile string, plugin queuePlugin, pods corelisters.PodLister) *holdingQueue {
	return &holdingQueue{
		SchedulingQueue: inner, profile: profile, plugin: plugin, pods: pods,
		held: map[types.UID]*heldPod{}, inFlight: map[types.UID]bool{}, attempted: map[types.UID]schedulerframework.QueueingParams{},
	}
}

// mayHold reports whether the queue may hold a pod: the pod is of Fluence's profile and has no node.
func (q *holdingQueue) mayHold(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == q.profile && pod.Spec.NodeName == "" && pod.Spec.SchedulingGroup == nil
}

// Add implements SchedulingQueue.
func (q *holdingQueue) Add(ctx context.Context, pod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(ctx, pod)
}

// add is Add without the lock.
func (q *holdingQueue) add(ctx context.Context, pod *corev1.Pod) {
	if q.mayHold(pod) && !q.plugin.PreEnqueue(ctx, pod).IsSuccess() {
		h := &heldPod{pod: pod, gated: true}
		q.hold(h, schedulerframework.EventUnscheduledPodAdd.Label())
		if pod.Status.NominatedNodeName != "" {
			q.AddNominatedPod(klog.FromContext(ctx), h.info(), nil)
		}
		return
	}
	q.SchedulingQueue.Add(ctx, pod)
}

// Activate implements SchedulingQueue. It adds the pods in the order of the queue, because
// a Pop that waits for a pod takes the first one, before the others are there.
func (q *holdingQueue) Activate(logger klog.Logger, pods map[string]*corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ctx := klog.NewContext(context.Background(), logger)
	passing := map[string]*corev1.Pod{}
	for key, pod := range pods {
		if h, is := q.held[pod.UID]; is && !q.plugin.PreEnqueue(ctx, h.pod).IsSuccess() {
			q.setGated(h)
			continue
		}
		passing[key] = pod
	}
	// PreEnqueue may have changed the ranks of the pods that pass.
	for _, key := range q.inOrder(passing) {
		pod := passing[key]
		if h, is := q.held[pod.UID]; is {
			q.pass(ctx, h)
			continue
		}
		// A pod that has been popped, and is not recorded as in flight yet, has
		// its cycle before it, which will see what the pod was activated for.
		if _, flies := q.inFlight[pod.UID]; flies {
			q.inFlight[pod.UID] = true
		}
		q.SchedulingQueue.Activate(logger, map[string]*corev1.Pod{key: pod})
	}
}

// inOrder returns the keys of pods, in the order of the queue.
func (q *holdingQueue) inOrder(pods map[string]*corev1.Pod) []string {
	keys := slices.Collect(maps.Keys(pods))
	if len(keys) < 2 {
		return keys
	}
	ranks := make(map[string]gang.Rank, len(pods))
	for key, pod := range pods {
		ranks[key] = q.plugin.podRank(pod)
	}
	slices.SortFunc(keys, func(a, b string) int { return ranks[a].Compare(ranks[b]) })
	return keys
}

// Pop implements SchedulingQueue.
func (q *holdingQueue) Pop(logger klog.Logger) (schedulerframework.QueuedEntityInfo, error) {
	q.plugin.flushActivations(klog.NewContext(context.Background(), logger))
	entity, err := q.SchedulingQueue.Pop(logger)
	pod, is := entity.(*schedulerframework.QueuedPodInfo)
	if err != nil || !is || pod == nil || pod.Pod.Spec.SchedulerName != q.profile {
		return entity, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight[pod.Pod.UID] = false
	if was, had := q.attempted[pod.Pod.UID]; had {
		delete(q.attempted, pod.Pod.UID)
		pod.Attempts += was.Attempts
		pod.UnschedulableCount += was.UnschedulableCount
		pod.InitialAttemptTimestamp = was.InitialAttemptTimestamp
	}
	return entity, nil
}

// Done implements SchedulingQueue.
func (q *holdingQueue) Done(uid types.UID) {
	q.mu.Lock()
	delete(q.inFlight, uid)
	q.mu.Unlock()
	q.SchedulingQueue.Done(uid)
}

// AddUnschedulablePodIfNotPresent implements SchedulingQueue.
func (q *holdingQueue) AddUnschedulablePodIfNotPresent(logger klog.Logger, info *schedulerframework.QueuedPodInfo, cycle int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	pod := info.Pod
	activated := q.inFlight[pod.UID]
	delete(q.inFlight, pod.UID)
	rejecters := info.UnschedulablePlugins.Union(info.PendingPlugins)
	if activated || !q.mayHold(pod) || !rejecters.Equal(sets.New(Name)) {
		return q.SchedulingQueue.AddUnschedulablePodIfNotPresent(logger, info, cycle)
	}
	defer q.SchedulingQueue.Done(pod.UID)
	if q.held[pod.UID] != nil {
		return fmt.Errorf("pod %s is already held", klog.KObj(pod))
	}
	shown, err := q.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || shown.UID != pod.UID || shown.Spec.NodeName != "" {
		// Delete may have been called already, and nothing would end the hold any more.
		return nil
	}
	info.UnschedulableCount++
	// Update may have been called for a newer pod, which the wrapped queue forgets with Done.
	q.hold(&heldPod{pod: shown, params: info.QueueingParams}, schedulerframework.ScheduleAttemptFailure)
	return nil
}

// Update implements SchedulingQueue.
func (q *holdingQueue) Update(ctx context.Context, old, pod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h, is := q.held[old.UID]
	if old.UID != pod.UID {
		// The deletion of the old pod was missed.
		delete(q.attempted, old.UID)
		if is {
			q.release(h)
			q.DeleteNominatedPodIfExists(old)
			q.add(ctx, pod)
			return
		}
	}
	if !is {
		q.SchedulingQueue.Update(ctx, old, pod)
		return
	}
	h.pod = pod
	if old.Status.NominatedNodeName != "" || pod.Status.NominatedNodeName != "" {
		q.UpdateNominatedPod(klog.FromContext(ctx), old, h.info())
	}
}

// Delete implements SchedulingQueue.
func (q *holdingQueue) Delete(logger klog.Logger, pod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.attempted, pod.UID)
	if h, is := q.held[pod.UID]; is {
		q.release(h)
		q.DeleteNominatedPodIfExists(pod)
		return
	}
	q.SchedulingQueue.Delete(logger, pod)
}

// NominatedPodsForNode implements SchedulingQueue. The wrapped queue
// knows only the names of the nominated pods that are held.
func (q *holdingQueue) NominatedPodsForNode(node string) []fwk.PodInfo {
	pods := q.SchedulingQueue.NominatedPodsForNode(node)
	if len(pods) == 0 {
		return pods // this is the usual case, and needs no lock
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	pods = q.SchedulingQueue.NominatedPodsForNode(node)
	for i, p := range pods {
		if h, is := q.held[p.GetPod().UID]; is {
			pods[i] = h.info()
		}
	}
	return pods
}

// GetPod implements SchedulingQueue.
func (q *holdingQueue) GetPod(name, namespace string, group *corev1.PodSchedulingGroup) (*schedulerframework.QueuedPodInfo, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range q.held {
		if h.pod.Name == name && h.pod.Namespace == namespace {
			return h.queued(), true
		}
	}
	return q.SchedulingQueue.GetPod(name, namespace, group)
}

// PendingPods implements SchedulingQueue.
func (q *holdingQueue) PendingPods() ([]*corev1.Pod, string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	pods, summary := q.SchedulingQueue.PendingPods()
	return append(pods, q.heldPods()...), fmt.Sprintf("%s; held by %s:%d", summary, Name, len(q.held))
}

// UnschedulablePods implements SchedulingQueue.
func (q *holdingQueue) UnschedulablePods() []*corev1.Pod {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append(q.SchedulingQueue.UnschedulablePods(), q.heldPods()...)
}

func (q *holdingQueue) heldPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, h := range q.held {
		pods = append(pods, h.pod)
	}
	return pods
}

// hold begins to hold a pod. event is what it comes from, as the queue's metrics name it.
func (q *holdingQueue) hold(h *heldPod, event string) {
	q.held[h.pod.UID] = h
	h.recorder().Add(singlePod{})
	schedulermetrics.SchedulerQueueIncomingPods.WithLabelValues("unschedulable", event).Inc()
	schedulermetrics.SchedulerQueueIncomingEntities.WithLabelValues("unschedulable", event, schedulermetrics.Pod).Inc()
	schedulermetrics.UnschedulableReason(Name, q.profile).Inc()
}

// release stops holding a pod.
func (q *holdingQueue) release(h *heldPod) {
	delete(q.held, h.pod.UID)
	h.recorder().Remove(singlePod{})
	schedulermetrics.UnschedulableReason(Name, q.profile).Dec()
}

// pass gives a pod that was held to the wrapped queue.
func (q *holdingQueue) pass(ctx context.Context, h *heldPod) {
	q.release(h)
	if h.params.Attempts > 0 {
		q.attempted[h.pod.UID] = h.params
	}
	q.SchedulingQueue.Add(ctx, h.pod)
}

// setGated records that PreEnqueue holds a pod, after an attempt has failed.
func (q *holdingQueue) setGated(h *heldPod) {
	if !h.gated {
		h.recorder().Remove(singlePod{})
		h.gated = true
		h.recorder().Add(singlePod{})
	}
}

func (h *heldPod) recorder() schedulermetrics.MetricRecorder {
	if h.gated {
		return schedulermetrics.NewGatedEntitiesRecorder()
	}
	return schedulermetrics.NewUnschedulableEntitiesRecorder()
}

// info returns the pod with what the framework derives from it.
func (h *heldPod) info() *schedulerframework.PodInfo {
	info, _ := schedulerframework.NewPodInfo(h.pod.DeepCopy()) // the queue ignores this error too: the API server admits such terms
	return info
}

// queued returns the pod as the wrapped queue would.
func (h *heldPod) queued() *schedulerframework.QueuedPodInfo {
	q := &schedulerframework.QueuedPodInfo{PodInfo: h.info(), QueueingParams: h.params}
	q.UnschedulablePlugins = sets.New(Name)
	if h.gated {
		q.GatingPlugin = Name
	}
	return q
}

// singlePod is the entity of the queue's metrics.
type singlePod struct{}

func (singlePod) Size() int               { return 1 }
func (singlePod) Type() fwk.EntityKeyType { return fwk.PodKeyType }
