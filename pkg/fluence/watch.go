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

// A watcher hears of what changes in the cluster, and of the time that passes.
type watcher struct {
	*base
	groupPlacer       *groupPlacer
	accounts          *accounts
	reserver          *reserver
	binder            *binder
	groupReporter     *groupReporter
	status            *status
	owners            *owners
	kubeletRejections *kubeletRejections
	debouncer         debouncer
}

// watch registers the plugin's event handlers and starts its goroutines. They
// begin to work when the scheduler has started its informers.
func (w *watcher) watch(ctx context.Context, leading func() bool) error {
	core := w.handle.SharedInformerFactory().Core().V1()
	pods, err := core.Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.observePod(ctx, nil, obj.(*corev1.Pod)) },
		UpdateFunc: func(old, obj any) { w.observePod(ctx, old.(*corev1.Pod), obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) { w.podGone(ctx, obj) },
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	nodes, err := core.Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.observeTwice(ctx, gang.NodeChanged) },
		UpdateFunc: func(old, obj any) {
			if nodeDiffers(old.(*corev1.Node), obj.(*corev1.Node)) {
				w.observeTwice(ctx, gang.NodeChanged)
			}
		},
		DeleteFunc: func(any) { w.observeTwice(ctx, gang.NodeChanged) },
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	namespaces, err := core.Namespaces().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.observeNamespace(ctx, nil, obj.(*corev1.Namespace)) },
		UpdateFunc: func(old, obj any) { w.observeNamespace(ctx, old.(*corev1.Namespace), obj.(*corev1.Namespace)) },
		DeleteFunc: w.namespaceGone,
	})
	if err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	storage := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.observeTwice(ctx, gang.StorageChanged) },
		UpdateFunc: func(any, any) { w.observeTwice(ctx, gang.StorageChanged) },
		DeleteFunc: func(any) { w.observeTwice(ctx, gang.StorageChanged) },
	}
	for name, informer := range map[string]cache.SharedIndexInformer{
		"persistentvolumes":      core.PersistentVolumes().Informer(),
		"persistentvolumeclaims": core.PersistentVolumeClaims().Informer(),
		"storageclasses":         w.handle.SharedInformerFactory().Storage().V1().StorageClasses().Informer(),
	} {
		if _, err := informer.AddEventHandler(storage); err != nil {
			return fmt.Errorf("watch %s: %w", name, err)
		}
	}
	synced := []cache.InformerSynced{pods.HasSynced, nodes.HasSynced, namespaces.HasSynced}
	w.synced = func() bool {
		for _, s := range synced {
			if !s() {
				return false
			}
		}
		return true
	}
	w.initialSync.onDone = func() {
		w.apply(ctx, w.groups.MarkSynced())
		w.activator.activateAll()
	}
	started, podGroupsListed := w.initialSync.addSource(), w.initialSync.addSource()
	go func() {
		if !cache.WaitForCacheSync(ctx.Done(), synced...) {
			return
		}
		// Only now is the queue there to be woken.
		go w.activator.run(ctx)
		go w.binder.runBindQueue(ctx)
		go w.breaker.run(ctx)
		go w.groupPlacer.releases.run(ctx)
		go w.groupReporter.reporter.Run(ctx)
		go w.groupReporter.events.Run(ctx)
		go w.groupReporter.podGroups.run(ctx, podGroupsListed)
		go w.kubeletRejections.run(ctx)
		w.groupReporter.podStatuses.Run(ctx)
		go w.groupReporter.reportSiblings(ctx, leading)
		go w.status.statusWriter.Run(ctx)
		go w.status.handover.run(ctx)
		w.owners.run(ctx, &w.initialSync)
		started()
		go func() {
			if err := w.inventory.Run(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "Keep the inventory; no group will be placed")
			}
		}()
		w.runTicks(ctx)
	}()
	return nil
}

func (w *watcher) observePod(ctx context.Context, old, pod *corev1.Pod) {
	if old != nil && old.UID != pod.UID {
		// It went and another came under its name while nobody watched.
		w.podGone(ctx, old)
		old = nil
	}
	w.occupants.update(pod)
	w.placer.UpdatePod(pod)
	if old != nil && translate.Holds(old) && !translate.Holds(pod) {
		w.reserver.blockerGone(pod)
	}
	if pod.Spec.SchedulerName == w.profile {
		if pod.Spec.NodeName != "" {
			w.groupReporter.reported.forget(pod.UID)
			w.binder.unexpect(string(pod.UID))
		}
		out := w.groups.PutPod(pod, w.now())
		if pod.Spec.NodeName != "" {
			// By a bind of which no answer came, or by somebody else's.
			w.binder.bindQueue.deliver(pod.UID, fmt.Sprintf("the pod is on node %s", pod.Spec.NodeName))
		}
		w.apply(ctx, out)
	} else if w.groupPlacer.nominations.put(pod, w.now()) {
		w.observeTwice(ctx, gang.Released)
	}
	if affectsFilters(old, pod) {
		w.observeTwice(ctx, gang.PodChanged)
	}
}

// affectsFilters says whether a change of a pod can matter to other pods' filters.
func affectsFilters(old, pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	return old == nil || old.Spec.NodeName == "" || old.Status.Phase != pod.Status.Phase ||
		// A pod that is to end is not counted by spread constraints.
		(old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(old.Labels, pod.Labels)
}

// observePodGroup takes note of a PodGroup that came or changed.
func (w *watcher) observePodGroup(ctx context.Context, pg *scheduling.PodGroup) {
	k := types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
	out := w.groups.PutPodGroup(k, asGroup(pg))
	w.groups.RestoreWaitingSince(k, report.WaitsSince(pg))
	w.apply(ctx, out)
	w.groupReporter.reporter.ObservePodGroup(k)
}

// podGroupGone takes note of a PodGroup that was deleted.
func (w *watcher) podGroupGone(ctx context.Context, k types.NamespacedName) {
	w.apply(ctx, w.groups.DropPodGroup(k))
}

// forget drops what is kept of a group beside package group.
func (tl *groupReporter) forget(k types.NamespacedName) {
	tl.reporter.Forget(k)
	tl.placer.Forget(k)
	tl.logged.forget(k)
	tl.binder.endAdmission(k)
	tl.binder.bindQueue.forget(k)
}

// forgetGone forgets a group that has ended. Who keeps something of a group calls it
// thereafter: the group may have gone, and been forgotten, in the moment before.
func (tl *groupReporter) forgetGone(k types.NamespacedName) {
	if !tl.groups.Knows(k) {
		tl.forget(k)
	}
}

// observeOwner takes note of an object that controls pods, or others that do.
func (w *watcher) observeOwner(ctx context.Context, uid types.UID) {
	w.apply(ctx, w.groups.ObserveOwner(uid))
}

func (w *watcher) podGone(ctx context.Context, obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	w.occupants.remove(pod)
	w.placer.RemovePod(pod.UID)
	w.reserver.blockerGone(pod)
	if pod.Spec.SchedulerName != w.profile {
		if w.groupPlacer.nominations.drop(pod.UID) {
			w.observeEvent(gang.Released)
		}
	} else {
		w.groupReporter.reported.forget(pod.UID)
		w.binder.unexpect(string(pod.UID))
		w.placer.Forget(w.groupKey(pod))
		out := w.groups.DropPod(pod.UID)
		w.binder.bindQueue.deliver(pod.UID, whyRevoked)
		w.apply(ctx, out)
	}
	if pod.Spec.NodeName != "" {
		w.observeTwice(ctx, gang.PodChanged)
	}
}

// blockerGone takes note that a pod is gone which may have kept groups from nodes that could be
// reserved for them.
func (ts *reserver) blockerGone(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || translate.OnEveryNode(pod) {
		return
	}
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || ts.reservations.hasOutlasted(pod.Namespace, pod.UID) {
		ts.groups.BlockerGone(pod)
	}
}

// observeTwice takes note of an event that the filters will see, now and again when
// the scheduler's cache is sure to have it.
func (w *watcher) observeTwice(ctx context.Context, ev gang.Event) {
	w.observeEvent(ev)
	w.debouncer.after(ctx, ev, settleTime, func() { w.observeEvent(ev) })
}

func nodeDiffers(old, node *corev1.Node) bool {
	return old.Spec.Unschedulable != node.Spec.Unschedulable ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) ||
		!equality.Semantic.DeepEqual(old.Labels, node.Labels) ||
		!equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable) ||
		nodeutil.IsNodeReady(old) != nodeutil.IsNodeReady(node)
}

// runTicks looks at deadlines until ctx ends.
func (w *watcher) runTicks(ctx context.Context) {
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
		now := w.now()
		w.apply(ctx, w.groups.RevokeExpired(now))
		w.sweepWaiting()
		w.binder.sweepBindQueue()
		w.groupReporter.reportBindWaits(ctx)
		w.reserver.updateReservations()
		if n%4 == 0 {
			lasting = w.groupReporter.reportWaiting(lasting)
			w.activator.activatePods(w.groups.Unclaimed())
		}
	}
}

// reportWaiting reports the groups that could not ask for anything now nor at the
// last call: PreEnqueue holds their pods, and nobody else says so.
func (tl *groupReporter) reportWaiting(before map[types.NamespacedName]string) map[types.NamespacedName]string {
	now := map[types.NamespacedName]string{}
	unready := tl.whyNotReady()
	for _, w := range tl.groups.WaitingGroups() {
		if w.Reason == "" && unready != "" {
			w.Reason, w.Message = reason.MatcherUnavailable, unready
		}
		now[w.Key] = w.Reason
		if w.Reason != "" && before[w.Key] == w.Reason {
			tl.logRefusal(w.Key, w.Reason, w.Message)
			tl.reporter.Report(w.Key, report.NotScheduled(w.Reason, w.Message), w.Pod)
			tl.forgetGone(w.Key)
		}
	}
	return now
}

// debouncer runs something a while after an event, once for all events of a kind
// that come meanwhile, and once more a while after these.
type debouncer struct {
	mu sync.Mutex
	// pending holds the kinds for which a run is to come, and whether they came
	// again since it was.
	pending map[gang.Event]bool
}

func (l *debouncer) after(ctx context.Context, ev gang.Event, d time.Duration, f func()) {
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
