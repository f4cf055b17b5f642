package fluence

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	nodeutil "k8s.io/kubernetes/pkg/util/node"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/nativegroup"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
	"github.com/flux-k8s/fluence/pkg/translate"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

const (
	// tick is the period of runTicks.
	tick = 500 * time.Millisecond
	// activateAllEvery is the period with which all groups that may be placed are
	// activated, in case something was missed: kube-scheduler's queue retries only
	// the pods that it has itself.
	activateAllEvery = time.Minute
	// settleTime is the time after which an event of a node, a pod or a volume is
	// assumed to be in the scheduler's cache as well. The plugin and the cache receive
	// events independently, so until then the filters may still see the old state.
	settleTime = 300 * time.Millisecond
)

// watcher handles informer events and periodic work.
type watcher struct {
	*base
	groupPlacer    *groupPlacer
	throttler      *throttler
	reserver       *reserver
	binder         *binder
	groupReporter  *groupReporter
	stateCollector *stateCollector
	owners         *owners
	// levels are the levels that topology annotations may name.
	levels            []group.Level
	kubeletRejections *kubeletRejections
	// nativeChange is held while a native PodGroup is put or dropped. It is also put when its
	// pods change, and may not come back by that when it was deleted.
	nativeChange  sync.Mutex
	nativeMembers *nativeMembers
	eventDelayer  eventDelayer
}

// watch registers the plugin's event handlers and starts its goroutines.
// They begin to work when the scheduler has started its informers.
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
				w.observeSettled(ctx, gang.NodeChanged)
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
	seatsKnown := make(chan struct{})
	know := sync.OnceFunc(func() { close(seatsKnown) })
	w.initialSync.onDone = func() {
		w.apply(ctx, w.groups.MarkSynced())
		know()
		w.activator.activateAll()
	}
	started := w.initialSync.addSource()
	go func() {
		if !cache.WaitForCacheSync(ctx.Done(), synced...) {
			return
		}
		// Start these only now: the scheduling queue, which
		// the activator calls, does not exist before.
		go w.activator.run(ctx)
		go w.binder.runBindQueue(ctx)
		go w.rewriteSeats(ctx)
		go w.breaker.run(ctx)
		go w.groupPlacer.releases.run(ctx)
		go w.groupReporter.reporter.Run(ctx)
		go w.groupReporter.events.Run(ctx)
		w.groupReporter.podGroups.run(ctx, &w.initialSync)
		go w.kubeletRejections.run(ctx)
		go w.quotas.run(ctx)
		w.groupReporter.podStatuses.Run(ctx)
		go w.groupReporter.reportSiblings(ctx, leading)
		go w.stateCollector.statusWriter.Run(ctx)
		go w.stateCollector.handover.run(ctx)
		go w.evictor.Run(ctx)
		w.owners.run(ctx, &w.initialSync)
		w.queues.run(ctx, &w.initialSync)
		started()
		go func() {
			// The graph is loaded with the seats of the groups that run, which their PodGroups record.
			select {
			case <-seatsKnown:
			case <-ctx.Done():
				return
			}
			if err := w.inventory.Run(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "Failed to run the inventory; no group will be placed")
			}
		}()
		w.runTicks(ctx)
	}()
	return nil
}

// observePod handles a pod that came or changed.
func (w *watcher) observePod(ctx context.Context, old, pod *corev1.Pod) {
	if old != nil && old.UID != pod.UID {
		// The pod was deleted and another one was created
		// under its name, and the watch missed the deletion.
		w.podGone(ctx, old)
		old = nil
	}
	w.occupants.update(pod)
	if node := pod.Spec.NodeName; node != "" && (old == nil || old.Spec.NodeName != node || !sameBounds(old, pod)) {
		w.promises.askSoon(node, w.now())
	}
	w.placer.UpdatePod(pod)
	w.index.PutPod(pod)
	if old != nil && (pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed) {
		w.keepForRestart(old)
	}
	if old != nil && translate.Holds(old) && !translate.Holds(pod) {
		w.groupPlacer.endedPods.add(translate.HeldSlot(old), w.now())
		w.offerFreedRoom(w.heldSlot(old))
		keepForJob(w, old)
		w.reserver.blockerGone(pod)
	}
	if translate.Holds(pod) != (old != nil && translate.Holds(old)) || pod.DeletionTimestamp != nil {
		w.evictor.PodChanged()
	}
	if old != nil && old.Spec.NodeName == "" && translate.Holds(pod) {
		w.preemptions.podBound(pod.UID, minPriority([]*corev1.Pod{pod}))
		w.evictor.Cancel(pod.UID, eviction.Started)
	}
	if w.ending.update(pod, w.now()) {
		// The group that claims its room has to ask before others do. The other pods of a job
		// that is deleted are marked a moment later.
		w.observeSettled(ctx, gang.Released)
	}
	w.observeNativeMember(ctx, pod, w.nativeMembers.update)
	if pod.Spec.SchedulerName == w.profile {
		if pod.Spec.NodeName != "" {
			w.groupReporter.reported.forget(pod.UID)
			w.binder.removeFromBindQueue(string(pod.UID))
		}
		out := w.groups.PutPod(pod, w.now())
		if pod.Spec.NodeName != "" {
			// The pod was bound by a request whose answer was lost, or by another client.
			w.binder.bindQueue.deliver(pod.UID, fmt.Sprintf("the pod is already bound to node %s", pod.Spec.NodeName))
		}
		if pod.DeletionTimestamp != nil {
			w.groupReporter.abandonPlans(out)
		}
		w.apply(ctx, out)
		recheckRoom(w.base, old, pod)
	} else if w.groupPlacer.nominations.put(pod, w.now()) {
		w.observeTwice(ctx, gang.Released)
	}
	if affectsFilters(old, pod) {
		w.observeTwice(ctx, gang.PodChanged)
	}
}

// affectsFilters reports whether a change of a pod can change the filters' results for other pods.
func affectsFilters(old, pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	return old == nil || old.Spec.NodeName == "" || old.Status.Phase != pod.Status.Phase ||
		// Spread constraints do not count a pod that is being deleted.
		(old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(old.Labels, pod.Labels)
}

// observePodGroup handles a PodGroup that came or changed.
func (w *watcher) observePodGroup(ctx context.Context, pg *scheduling.PodGroup) {
	w.putPodGroup(ctx, pg, toGangPodGroup(pg))
}

// observeNativePodGroup handles a native PodGroup that came or changed.
func (w *watcher) observeNativePodGroup(ctx context.Context, native *schedulingv1beta1.PodGroup) {
	w.nativeChange.Lock()
	defer w.nativeChange.Unlock()
	w.putNativePodGroup(ctx, native)
}

// putNativePodGroup handles a native PodGroup, with what its pods say. The caller holds nativeChange.
func (w *watcher) putNativePodGroup(ctx context.Context, native *schedulingv1beta1.PodGroup) {
	g := toGangNativePodGroup(native, w.levels)
	w.nativeMembers.describe(native, &g)
	w.putPodGroup(ctx, nativegroup.Convert(native), g)
}

// observeNativeMember puts the native PodGroup of a pod again if
// the pod changes what has to be said of it. count counts the pod.
func (w *watcher) observeNativeMember(ctx context.Context, pod *corev1.Pod, count func(*corev1.Pod) (types.NamespacedName, bool)) {
	key, changed := count(pod)
	if !changed {
		return
	}
	w.nativeChange.Lock()
	defer w.nativeChange.Unlock()
	name, _ := group.NativeName(key)
	if native := w.groupReporter.podGroups.native.get(key.Namespace, name); native != nil {
		w.putNativePodGroup(ctx, native)
	}
}

// nativePodGroupsUnread handles an answer of the API server that says why
// native PodGroups cannot be read, or says nothing because they can.
func (w *watcher) nativePodGroupsUnread(why string) { w.groups.SetNativePodGroupsUnread(why) }

// putPodGroup handles a PodGroup that came or changed, in both of its forms.
func (w *watcher) putPodGroup(ctx context.Context, pg *scheduling.PodGroup, g gang.PodGroup) {
	k := types.NamespacedName{Namespace: pg.Namespace, Name: pg.Name}
	out := w.groups.PutPodGroup(k, g)
	w.groups.RestoreWaitingSince(k, report.WaitsSince(pg))
	w.apply(ctx, out)
	w.groupReporter.reporter.ObservePodGroup(k)
}

// podGroupGone handles a PodGroup that was deleted.
func (w *watcher) podGroupGone(ctx context.Context, k types.NamespacedName) {
	w.nativeChange.Lock()
	defer w.nativeChange.Unlock()
	out := w.groups.DropPodGroup(k)
	w.groupReporter.abandonPlans(out)
	w.apply(ctx, out)
}

// forget drops everything that the plugin keeps about a group outside package gang.
func (tl *groupReporter) forget(k types.NamespacedName) {
	tl.reporter.Forget(k)
	tl.placer.Forget(k)
	tl.logged.forget(k)
	tl.binder.endAdmission(k)
	tl.binder.bindQueue.forget(k)
}

// forgetIfGone calls forget for a group that has ended. Call it after anything about a group was
// stored: the group may just have ended and been forgotten, and then the entry would leak.
func (tl *groupReporter) forgetIfGone(k types.NamespacedName) {
	if !tl.groups.Knows(k) {
		tl.forget(k)
	}
}

// observeOwner handles an object that became known and
// controls pods, directly or through another object.
func (w *watcher) observeOwner(ctx context.Context, uid types.UID) {
	w.apply(ctx, w.groups.ObserveOwner(uid))
}

// podGone handles a pod that was deleted.
func (w *watcher) podGone(ctx context.Context, obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	w.keepForRestart(pod)
	if translate.Holds(pod) {
		w.groupPlacer.endedPods.add(translate.HeldSlot(pod), w.now())
		w.offerFreedRoom(w.heldSlot(pod))
		keepForJob(w, pod)
	}
	if w.ending.gone(pod.UID, w.now()); translate.Holds(pod) && w.evictor.IsVictim(pod.UID) {
		w.ending.goneAtOnce(pod, w.now())
	}
	w.evictor.PodChanged()
	w.index.RemovePod(pod.UID)
	w.occupants.remove(pod)
	w.observeNativeMember(ctx, pod, w.nativeMembers.remove)
	w.placer.RemovePod(pod.UID)
	w.reserver.blockerGone(pod)
	if pod.Spec.SchedulerName != w.profile {
		if w.groupPlacer.nominations.drop(pod.UID) {
			w.observeEvent(gang.Released)
		}
	} else {
		w.groupReporter.reported.forget(pod.UID)
		w.binder.removeFromBindQueue(string(pod.UID))
		w.placer.Forget(w.groupKey(pod))
		out := w.groups.DropPod(pod.UID)
		w.binder.bindQueue.deliver(pod.UID, "the pod was deleted")
		w.groupReporter.abandonPlans(out)
		w.apply(ctx, out)
		recheckRoom(w.base, nil, pod)
	}
	if pod.Spec.NodeName != "" {
		w.observeTwice(ctx, gang.PodChanged)
	}
}

// blockerGone records the end of a pod that was not expected to end.
// The groups that yield because of the pod may get reserved nodes now.
func (ts *reserver) blockerGone(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || translate.OnEveryNode(pod) {
		return
	}
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways || ts.reservations.hasOutlasted(pod.Namespace, pod.UID) {
		ts.groups.BlockerGone(pod)
	}
}

// observeTwice observes an event now, and once more after
// settleTime, when the scheduler's cache has the change too.
func (w *watcher) observeTwice(ctx context.Context, ev gang.Event) {
	w.observeEvent(ev)
	w.eventDelayer.after(ctx, ev, settleTime, func() { w.observeEvent(ev) })
}

// observeSettled observes an event once, when the scheduler's cache has the change too. If groups could ask at once, the
// first in order might be refused by what the cache still has, and one after it would take the room a moment later.
func (w *watcher) observeSettled(ctx context.Context, ev gang.Event) {
	w.eventDelayer.after(ctx, ev, settleTime, func() { w.observeEvent(ev) })
}

// nodeDiffers reports whether a change of a node can change the results of filters.
func nodeDiffers(old, node *corev1.Node) bool {
	return old.Spec.Unschedulable != node.Spec.Unschedulable ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) ||
		!equality.Semantic.DeepEqual(old.Labels, node.Labels) ||
		!equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable) ||
		nodeutil.IsNodeReady(old) != nodeutil.IsNodeReady(node)
}

// runTicks does the periodic work each tick until ctx ends: expired assignments, pods in Permit,
// the bind queue, room that is kept, claimed, offered or refused, reservations, and groups that had to leave the room of pods that ended. It reports
// waiting groups every fourth tick. It activates all groups that may be placed every activateAllEvery.
func (w *watcher) runTicks(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	// previousReasons has the reasons of the last check. A reason that can end by itself is reported
	// only if it lasts, so that a group whose pods are still being created is not reported.
	previousReasons := map[types.NamespacedName]string{}
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := w.now()
		if w.groupReporter.reporter.Leads() && w.initialSync.isDone() {
			w.resumeEvictions(w.groupReporter.podGroups, w.owners)
		}
		w.apply(ctx, w.groups.RevokeExpired(now))
		w.endRestarts(now)
		endLeavingRooms(w.base, now)
		endFreedForJobs(w.base, now)
		endRefusedRooms(w, now)
		w.endClaims(now)
		w.endPromises(now)
		w.endOffers(now)
		w.keepSeats(ctx, now)
		w.sweepWaiting()
		w.binder.sweepBindQueue()
		w.groupReporter.reportBindWaits(ctx)
		w.reserver.updateReservations()
		if w.groupPlacer.endedPods.takeCounted() {
			w.observeEvent(gang.Released)
		}
		if n%4 == 0 {
			previousReasons = w.groupReporter.reportWaiting(previousReasons)
			w.activator.activatePods(w.groups.Unclaimed())
		}
		if n%int(activateAllEvery/tick) == 0 {
			w.activator.activateAll()
		}
	}
}

// reportWaiting reports the groups that cannot be placed, for the same reason as at the
// check before, or for one that does not end by itself if there is a PodGroup to say so. It
// returns the present reasons.
// kube-scheduler reports nothing for pods that PreEnqueue holds.
func (tl *groupReporter) reportWaiting(before map[types.NamespacedName]string) map[types.NamespacedName]string {
	now := map[types.NamespacedName]string{}
	unready := tl.whyNotReady()
	for _, w := range tl.groups.WaitingGroups() {
		if w.Reason == "" && unready != "" {
			w.Reason, w.Message = reason.MatcherUnavailable, unready
		}
		now[w.Key] = w.Reason
		atOnce := reason.PropertiesOf(w.Reason).Invalid && tl.podGroups.Get(w.Key) != nil
		if w.Reason != "" && (before[w.Key] == w.Reason || atOnce) {
			tl.logRefusal(w.Key, w.Reason, w.Message)
			tl.reporter.Report(w.Key, report.NotScheduled(w.Reason, w.Message), w.Pod)
			tl.forgetIfGone(w.Key)
		}
	}
	return now
}

// eventDelayer runs a function a fixed time after an event. All events of the same kind
// that come before this run cause one more run together, the same time after the first.
type eventDelayer struct {
	mu sync.Mutex
	// pending has the kinds of event with a scheduled run. The value
	// reports whether the event has come again since the run was scheduled.
	pending map[gang.Event]bool
}

// after schedules f to run the time d after an event.
func (l *eventDelayer) after(ctx context.Context, ev gang.Event, d time.Duration, f func()) {
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
