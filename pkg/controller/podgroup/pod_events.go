package podgroup

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// podEventDelay is the time for which the events of a group's pods are collected before the group
// is reconciled. The pods of a group are bound, start and end in bursts, and what they come to counts,
// not each event. It is far below StatusDelay, EmptyDelay and IncompleteTimeout, and short for a user
// who waits for the phase Running.
const podEventDelay = 250 * time.Millisecond

// A queue holds the groups to reconcile. A group that is added several times is in the queue once,
// and is due at the earliest of the times.
type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// podEvents keeps the index of pods up to date, and queues the groups of a pod when the pod changes.
// The index comes first, so that a reconcile for an event counts the pod as it is after the event.
// The controller begins to reconcile when all pods that the cache has at its start were handled.
func (r *reconciler) podEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			r.indexPod(e.Object)
			r.enqueuePodEvent(ctx, q, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			r.indexPod(e.ObjectNew)
			if podChanged(e) {
				r.enqueuePodEvent(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				r.pods.remove(pod)
			}
			r.enqueuePodEvent(ctx, q, e.Object)
		},
	}
}

// indexPod puts a pod into the index, also after an update that changes nothing that is read, so
// that the index does not keep a pod that the cache has dropped.
func (r *reconciler) indexPod(obj client.Object) {
	if pod, ok := obj.(*corev1.Pod); ok {
		r.pods.set(pod)
	}
}

// enqueuePodEvent queues the groups that an event of a pod concerns. A group
// without a PodGroup is queued at once, because none of its pods starts
// before it has one. All others are queued after podEventDelay: only their
// status depends on the event, and IncompleteTimeout is at least a second.
func (r *reconciler) enqueuePodEvent(ctx context.Context, q queue, versions ...client.Object) {
	for _, req := range r.requestsOfPod(ctx, versions...) {
		if r.hasPodGroup(ctx, req) {
			q.AddAfter(req, podEventDelay)
		} else {
			q.Add(req)
		}
	}
}

// requestsOfPod returns requests for the groups that an event
// of a pod concerns, by the pod before the event and after it.
func (r *reconciler) requestsOfPod(ctx context.Context, versions ...client.Object) []ctrl.Request {
	var names []string
	for _, obj := range versions {
		if pod, ok := obj.(*corev1.Pod); ok {
			names = append(names, namesOfPod(pod, cacheReader{ctx, r.client})...)
			if r.native.isWatched() {
				// The pods of one controller may be in several groups. Those of one do not count in another.
				names = append(names, r.pods.nativesUnder(pod.Namespace, possibleGroupNames(pod)...)...)
			}
		}
	}
	return requests(versions[0].GetNamespace(), names)
}

// hasPodGroup reports whether the cache has the PodGroup of a group. It does not wait until the
// writes of this controller are in the cache. If it misses a new PodGroup, the group is only
// reconciled earlier than needed.
func (r *reconciler) hasPodGroup(ctx context.Context, req ctrl.Request) bool {
	if name, native := group.NativeName(req.NamespacedName); native {
		return r.hasNativeMinimum(ctx, req.Namespace, name)
	}
	var pg scheduling.PodGroup
	return r.client.Get(ctx, req.NamespacedName, &pg, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency) == nil
}
