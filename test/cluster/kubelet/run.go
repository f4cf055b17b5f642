package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	// writers is how many statuses are written at a time.
	writers = 16
	// writeTimeout bounds one write.
	writeTimeout = 30 * time.Second
)

// kubelet stands for the kubelets of all nodes.
type kubelet struct {
	client kubernetes.Interface
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu       sync.Mutex
	ledger   *ledger
	synced   bool
	initial  []*corev1.Pod           // seen before synced, to be sorted
	at       map[types.UID]time.Time // when a pod was admitted
	unsaid   map[types.NamespacedName][]mark
	lastEnds map[types.UID]*corev1.PodCondition
}

// mark is a condition to be written into the status of the pod uid.
type mark struct {
	uid       types.UID
	condition corev1.PodCondition
}

// Run admits and rejects pods until ctx is done.
func Run(ctx context.Context, client kubernetes.Interface) error {
	k := &kubelet{
		client:   client,
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()),
		ledger:   newLedger(),
		at:       map[types.UID]time.Time{},
		unsaid:   map[types.NamespacedName][]mark{},
		lastEnds: map[types.UID]*corev1.PodCondition{},
	}
	bound := func(o *metav1.ListOptions) { o.FieldSelector = "spec.nodeName!=" }
	nodes := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer()
	pods := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(bound)).Core().V1().Pods().Informer()
	for _, inf := range []cache.SharedIndexInformer{nodes, pods} {
		if err := inf.SetTransform(dropManagedFields); err != nil {
			return fmt.Errorf("prepare an informer: %w", err)
		}
	}
	nodesSeen, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.putNode(ctx, o.(*corev1.Node)) },
		UpdateFunc: func(_, o any) { k.putNode(ctx, o.(*corev1.Node)) },
		DeleteFunc: func(o any) { k.removeNode(deleted[*corev1.Node](o)) },
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	podsSeen, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.putPod(ctx, o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { k.putPod(ctx, o.(*corev1.Pod)) },
		DeleteFunc: func(o any) { k.removePod(deleted[*corev1.Pod](o)) },
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	var running sync.WaitGroup
	running.Go(func() { nodes.RunWithContext(ctx) })
	running.Go(func() { pods.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), nodesSeen.HasSynced, podsSeen.HasSynced) {
		k.begin(ctx)
		klog.FromContext(ctx).Info(ReadyLine)
		for range writers {
			running.Go(func() { k.write(ctx) })
		}
	}
	<-ctx.Done()
	k.queue.ShutDown()
	running.Wait()
	return nil
}

// begin decides on the pods that were there from the start: those already
// admitted first, the others in the order of their binding.
func (k *kubelet) begin(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	slices.SortStableFunc(k.initial, func(a, b *corev1.Pod) int {
		if x, y := alreadyAdmitted(a), alreadyAdmitted(b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return boundAt(a).Compare(boundAt(b))
	})
	k.synced = true
	for _, pod := range k.initial {
		k.decide(ctx, pod)
	}
	k.initial = nil
}

// boundAt is when a pod got its node, to the second.
func boundAt(pod *corev1.Pod) time.Time {
	if c := condition(pod, corev1.PodScheduled); c != nil {
		return c.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

func (k *kubelet) putNode(ctx context.Context, node *corev1.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range k.ledger.putNode(node) {
		k.say(ctx, v)
	}
}

func (k *kubelet) removeNode(node *corev1.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ledger.removeNode(node.Name)
}

func (k *kubelet) putPod(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.synced {
		k.initial = append(slices.DeleteFunc(k.initial, sameAs(pod)), pod)
		return
	}
	k.decide(ctx, pod)
}

func (k *kubelet) removePod(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.initial = slices.DeleteFunc(k.initial, sameAs(pod))
	k.ledger.removePod(pod)
	k.forget(pod)
}

// decide gives the pod to the ledger and queues what is to be written; the
// caller holds the lock.
func (k *kubelet) decide(ctx context.Context, pod *corev1.Pod) {
	if v, ok := k.ledger.putPod(pod); ok {
		k.say(ctx, v)
		return
	}
	if finished(pod) {
		k.forget(pod)
		return
	}
	if c := admission(pod); c != nil && c.Status == corev1.ConditionTrue {
		if _, ok := k.at[pod.UID]; !ok { // admitted before this process began
			k.at[pod.UID] = c.LastTransitionTime.Time
			k.lastEnds[pod.UID] = condition(pod, Ends)
		}
	}
	if _, ok := k.at[pod.UID]; ok {
		k.sayEnd(pod)
	}
}

func (k *kubelet) forget(pod *corev1.Pod) {
	delete(k.at, pod.UID)
	delete(k.lastEnds, pod.UID)
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

// sayEnd queues the pod's end if it is another than said before.
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
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	k.unsaid[key] = append(k.unsaid[key], mark{uid: pod.UID, condition: c})
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

// patch writes marks of one pod, all with one request. A pod that is gone, or
// has been replaced by another of its name, needs none.
func (k *kubelet) patch(ctx context.Context, key types.NamespacedName, marks []mark) error {
	if len(marks) == 0 {
		return nil
	}
	uid := marks[len(marks)-1].uid
	byType := map[corev1.PodConditionType]corev1.PodCondition{}
	for _, m := range marks {
		if m.uid == uid {
			byType[m.condition.Type] = m.condition
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
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err = k.client.CoreV1().Pods(key.Namespace).Patch(ctx, key.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // conflict: another uid
		return nil
	}
	return err
}

// deleted returns the object of a delete event, whose last state may have been
// missed.
func deleted[T any](o any) T {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	return o.(T)
}

// dropManagedFields saves memory.
func dropManagedFields(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return o, nil
}
