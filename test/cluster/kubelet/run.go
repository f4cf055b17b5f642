package kubelet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// kubelet simulates the kubelets of all nodes.
type kubelet struct {
	client kubernetes.Interface
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName] // pods to write
	doubts workqueue.TypedRateLimitingInterface[string]               // nodes to settle
	// removals are pods to remove from the API server.
	removals workqueue.TypedRateLimitingInterface[types.UID]

	mu       sync.Mutex
	ledger   *ledger
	synced   bool
	initial  []*corev1.Pod           // pods seen before synced, to be sorted
	at       map[types.UID]time.Time // when a pod was admitted
	unsaid   map[types.NamespacedName][]mark
	lastEnds map[types.UID]*corev1.PodCondition
	deferred map[types.UID]*corev1.Pod // pods whose resize waits for room
	leaving  map[types.UID]*corev1.Pod // pods that are being deleted
}

func newKubelet(client kubernetes.Interface) *kubelet {
	return &kubelet{
		client:   client,
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()),
		doubts:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		ledger:   newLedger(),
		at:       map[types.UID]time.Time{},
		unsaid:   map[types.NamespacedName][]mark{},
		lastEnds: map[types.UID]*corev1.PodCondition{},
		removals: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.UID]()),
		deferred: map[types.UID]*corev1.Pod{},
		leaving:  map[types.UID]*corev1.Pod{},
	}
}

// Run admits, rejects and removes pods until ctx is done.
func Run(ctx context.Context, client kubernetes.Interface) error {
	k := newKubelet(client)
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
		UpdateFunc: func(was, o any) { k.replacePod(ctx, was.(*corev1.Pod), o.(*corev1.Pod)) },
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
		for range checkers {
			running.Go(func() { k.check(ctx) })
		}
		for range removers {
			running.Go(func() { k.remove(ctx) })
		}
	}
	<-ctx.Done()
	k.queue.ShutDown()
	k.doubts.ShutDown()
	k.removals.ShutDown()
	running.Wait()
	return nil
}

// begin decides on the pods that exist at the start: first the pods
// already admitted, then the others in the order of their binding.
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

// boundAt returns when a pod got its node, to the second.
func boundAt(pod *corev1.Pod) time.Time {
	if c := condition(pod, corev1.PodScheduled); c != nil {
		return c.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}

func (k *kubelet) putNode(ctx context.Context, node *corev1.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tell(ctx, node.Name, k.ledger.putNode(node))
	k.settleDeferred(node.Name)
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

// replacePod takes an update. If both the removal of a pod and the creation of
// another pod of its name were missed, the informer reports them as one update.
func (k *kubelet) replacePod(ctx context.Context, was, pod *corev1.Pod) {
	if was.UID != pod.UID {
		k.removePod(was)
	}
	k.putPod(ctx, pod)
}

func (k *kubelet) removePod(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.initial = slices.DeleteFunc(k.initial, sameAs(pod))
	k.ledger.removePod(pod)
	k.forget(pod)
	delete(k.leaving, pod.UID)
	k.settleDeferred(pod.Spec.NodeName)
}

// decide gives the pod to the ledger, and queues
// what has to be written. The caller holds the lock.
func (k *kubelet) decide(ctx context.Context, pod *corev1.Pod) {
	k.leave(pod)
	k.tell(ctx, pod.Spec.NodeName, k.ledger.putPod(pod))
	if finished(pod) {
		k.forget(pod)
		k.settleDeferred(pod.Spec.NodeName)
		return
	}
	k.settleResize(pod)
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
	delete(k.deferred, pod.UID)
}

// deleted returns the object of a delete event. Its last state may have been missed.
func deleted[T any](o any) T {
	if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	return o.(T)
}

// dropManagedFields removes the managed fields, to save memory.
func dropManagedFields(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	return o, nil
}
