package fluence

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	nodeutil "k8s.io/kubernetes/pkg/util/node"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

const (
	// tick is how often deadlines are looked at.
	tick = 500 * time.Millisecond
	// settleTime is after how long an event of a node, a pod or a volume is taken
	// to have reached the scheduler's own cache too, which hears of it at the same
	// time as the plugin: until then the filters may answer from before it.
	settleTime = 300 * time.Millisecond
)

// watch registers the plugin's event handlers and starts its goroutines. They
// begin to work when the scheduler has started its informers.
func (pl *Fluence) watch(ctx context.Context, leading func() bool) error {
	core := pl.handle.SharedInformerFactory().Core().V1()
	pods, err := core.Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { pl.podSeen(ctx, nil, obj.(*corev1.Pod)) },
		UpdateFunc: func(old, obj any) { pl.podSeen(ctx, old.(*corev1.Pod), obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) { pl.podGone(ctx, obj) },
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	nodes, err := core.Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { pl.settled(ctx, gang.NodeChanged) },
		UpdateFunc: func(old, obj any) {
			if nodeDiffers(old.(*corev1.Node), obj.(*corev1.Node)) {
				pl.settled(ctx, gang.NodeChanged)
			}
		},
		DeleteFunc: func(any) { pl.settled(ctx, gang.NodeChanged) },
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	namespaces, err := core.Namespaces().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { pl.namespaceSeen(ctx, nil, obj.(*corev1.Namespace)) },
		UpdateFunc: func(old, obj any) { pl.namespaceSeen(ctx, old.(*corev1.Namespace), obj.(*corev1.Namespace)) },
		DeleteFunc: pl.namespaceGone,
	})
	if err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	storage := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { pl.settled(ctx, gang.StorageChanged) },
		UpdateFunc: func(any, any) { pl.settled(ctx, gang.StorageChanged) },
		DeleteFunc: func(any) { pl.settled(ctx, gang.StorageChanged) },
	}
	for name, informer := range map[string]cache.SharedIndexInformer{
		"persistentvolumes":      core.PersistentVolumes().Informer(),
		"persistentvolumeclaims": core.PersistentVolumeClaims().Informer(),
		"storageclasses":         pl.handle.SharedInformerFactory().Storage().V1().StorageClasses().Informer(),
	} {
		if _, err := informer.AddEventHandler(storage); err != nil {
			return fmt.Errorf("watch %s: %w", name, err)
		}
	}
	synced := []cache.InformerSynced{pods.HasSynced, nodes.HasSynced, namespaces.HasSynced}
	pl.synced = func() bool {
		for _, s := range synced {
			if !s() {
				return false
			}
		}
		return true
	}
	pl.listing.done = func() {
		pl.apply(ctx, pl.groups.Listed())
		pl.waker.all()
	}
	started, podGroupsListed := pl.listing.expect(), pl.listing.expect()
	go func() {
		if !cache.WaitForCacheSync(ctx.Done(), synced...) {
			return
		}
		// Only now is the queue there to be woken.
		go pl.waker.run(ctx)
		go pl.runGate(ctx)
		go pl.breaker.run(ctx)
		go pl.returns.run(ctx)
		go pl.reporter.Run(ctx)
		go pl.events.Run(ctx)
		go pl.podGroups.run(ctx, podGroupsListed)
		go pl.races.run(ctx)
		pl.podStatuses.Run(ctx)
		go pl.tellBesides(ctx, leading)
		go pl.bulletin.Run(ctx)
		go pl.handover.run(ctx)
		pl.owners.run(ctx, &pl.listing)
		started()
		go func() {
			if err := pl.inventory.Run(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "Keep the inventory; no group will be placed")
			}
		}()
		pl.runTicks(ctx)
	}()
	return nil
}

func (pl *Fluence) podSeen(ctx context.Context, old, pod *corev1.Pod) {
	if old != nil && old.UID != pod.UID {
		// It went and another came under its name while nobody watched.
		pl.podGone(ctx, old)
		old = nil
	}
	pl.running.put(pod)
	pl.placer.PodSeen(pod)
	if old != nil && translate.Holds(old) && !translate.Holds(pod) {
		pl.outOfTheWay(pod)
	}
	if pod.Spec.SchedulerName == pl.profile {
		if pod.Spec.NodeName != "" {
			pl.told.forget(pod.UID)
			pl.noLongerExpected(string(pod.UID))
		}
		out := pl.groups.PutPod(pod, pl.now())
		if pod.Spec.NodeName != "" {
			// By a bind of which no answer came, or by somebody else's.
			pl.binds.tell(pod.UID, fmt.Sprintf("the pod is on node %s", pod.Spec.NodeName))
		}
		pl.apply(ctx, out)
	} else if pl.nominated.put(pod, pl.now()) {
		pl.settled(ctx, gang.Freed)
	}
	if filtersSee(old, pod) {
		pl.settled(ctx, gang.PodChanged)
	}
}

// filtersSee says whether a change of a pod can matter to other pods' filters.
func filtersSee(old, pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	return old == nil || old.Spec.NodeName == "" || old.Status.Phase != pod.Status.Phase ||
		// A pod that is to end is not counted by spread constraints.
		(old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(old.Labels, pod.Labels)
}

// podGroupSeen takes note of a PodGroup that came or changed.
func (pl *Fluence) podGroupSeen(ctx context.Context, pg *scheduling.PodGroup) {
	k := types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
	out := pl.groups.PutPodGroup(k, asGroup(pg))
	pl.groups.Waited(k, report.WaitsSince(pg))
	pl.apply(ctx, out)
	pl.reporter.Seen(k)
}

// podGroupGone takes note of a PodGroup that was deleted.
func (pl *Fluence) podGroupGone(ctx context.Context, k types.NamespacedName) {
	pl.apply(ctx, pl.groups.DropPodGroup(k))
}

// forget drops what is kept of a group beside package group.
func (pl *Fluence) forget(k types.NamespacedName) {
	pl.reporter.Forget(k)
	pl.placer.Forget(k)
	pl.logged.forget(k)
	pl.asked(k)
	pl.binds.forget(k)
}

// forgetGone forgets a group that has ended. Who keeps something of a group calls it
// thereafter: the group may have gone, and been forgotten, in the moment before.
func (pl *Fluence) forgetGone(k types.NamespacedName) {
	if !pl.groups.Knows(k) {
		pl.forget(k)
	}
}

// ownerSeen takes note of an object that controls pods, or others that do.
func (pl *Fluence) ownerSeen(ctx context.Context, uid types.UID) {
	pl.apply(ctx, pl.groups.OwnerSeen(uid))
}

func (pl *Fluence) podGone(ctx context.Context, obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	pl.running.drop(pod)
	pl.placer.PodGone(pod.UID)
	pl.outOfTheWay(pod)
	if pod.Spec.SchedulerName != pl.profile {
		if pl.nominated.drop(pod.UID) {
			pl.happened(gang.Freed)
		}
	} else {
		pl.told.forget(pod.UID)
		pl.noLongerExpected(string(pod.UID))
		pl.placer.Forget(pl.key(pod))
		out := pl.groups.DropPod(pod.UID)
		pl.binds.tell(pod.UID, whyGaveBack)
		pl.apply(ctx, out)
	}
	if pod.Spec.NodeName != "" {
		pl.settled(ctx, gang.PodChanged)
	}
}

// outOfTheWay takes note that a pod is gone which may have kept groups from nodes that could be
// reserved for them.
func (pl *Fluence) outOfTheWay(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || translate.OnEveryNode(pod) {
		return
	}
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || pl.reservations.hasOutlasted(pod.Namespace, pod.UID) {
		pl.groups.OutOfTheWay(pod)
	}
}

// settled takes note of an event that the filters will see, now and again when
// the scheduler's cache is sure to have it.
func (pl *Fluence) settled(ctx context.Context, ev gang.Event) {
	pl.happened(ev)
	pl.later.after(ctx, ev, settleTime, func() { pl.happened(ev) })
}

func nodeDiffers(old, node *corev1.Node) bool {
	return old.Spec.Unschedulable != node.Spec.Unschedulable ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) ||
		!equality.Semantic.DeepEqual(old.Labels, node.Labels) ||
		!equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable) ||
		nodeutil.IsNodeReady(old) != nodeutil.IsNodeReady(node)
}

// runTicks looks at deadlines until ctx ends.
func (pl *Fluence) runTicks(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	// A group that is just being made is no news: what is told has lasted.
	lasting := map[types.NamespacedName]string{}
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := pl.now()
		pl.apply(ctx, pl.groups.Expire(now))
		pl.sweepWaiting()
		pl.sweepGate()
		pl.tellBinding(ctx)
		pl.letPass()
		if n%4 == 0 {
			lasting = pl.tellWaiting(lasting)
			pl.waker.pods(pl.groups.Unclaimed())
		}
	}
}

// tellWaiting reports the groups that could not ask for anything now nor at the
// last call: PreEnqueue holds their pods, and nobody else says so.
func (pl *Fluence) tellWaiting(before map[types.NamespacedName]string) map[types.NamespacedName]string {
	now := map[types.NamespacedName]string{}
	unready := pl.notReady()
	for _, w := range pl.groups.Waiting() {
		if w.Reason == "" && unready != "" {
			w.Reason, w.Message = reason.MatcherUnavailable, unready
		}
		now[w.Key] = w.Reason
		if w.Reason != "" && before[w.Key] == w.Reason {
			pl.recordRefused(w.Key, w.Reason, w.Message)
			pl.reporter.Report(w.Key, report.NotScheduled(w.Reason, w.Message), w.Pod)
			pl.forgetGone(w.Key)
		}
	}
	return now
}

// later runs something a while after an event, once for all events of a kind
// that come meanwhile, and once more a while after these.
type later struct {
	mu sync.Mutex
	// pending holds the kinds for which a run is to come, and whether they came
	// again since it was.
	pending map[gang.Event]bool
}

func (l *later) after(ctx context.Context, ev gang.Event, d time.Duration, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.pending[ev]; ok {
		l.pending[ev] = true
		return
	}
	if l.pending == nil {
		l.pending = map[gang.Event]bool{}
	}
	l.pending[ev] = false
	time.AfterFunc(d, func() {
		l.mu.Lock()
		again := l.pending[ev]
		delete(l.pending, ev)
		l.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		f()
		if again {
			l.after(ctx, ev, d, f)
		}
	})
}
