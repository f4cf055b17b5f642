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

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// podEventDelay is how long the events of a group's pods are gathered before the group is
// looked at: the pods of a group are bound, run and go within a second, and a look at
// each of these events would read all of them again. It is far below CountDelay, EmptyDelay
// and IncompleteTimeout, and short for somebody who waits for the phase Running.
const podEventDelay = 250 * time.Millisecond

// A queue holds the groups that are to be looked at. A group that waits in it keeps the
// earliest of its times.
type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// podEvents has the groups of pods looked at when something happens to the pods.
func (r *reconciler) podEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { r.enqueuePodEvent(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			r.enqueuePodEvent(ctx, q, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { r.enqueuePodEvent(ctx, q, e.Object) },
	}
}

// enqueuePodEvent asks to look at the groups that an event of a pod concerns. A group without a
// PodGroup is looked at at once: until it has one none of its pods starts. All else can
// wait: a status tells of it, and what is done about a loss is due a second later at the
// earliest.
func (r *reconciler) enqueuePodEvent(ctx context.Context, q queue, versions ...client.Object) {
	for _, req := range r.requestsOfPod(ctx, versions...) {
		if r.hasPodGroup(ctx, req) {
			q.AddAfter(req, podEventDelay)
		} else {
			q.Add(req)
		}
	}
}

// requestsOfPod names the groups that an event of a pod concerns, by what the pod was
// before the event and is after it.
func (r *reconciler) requestsOfPod(ctx context.Context, versions ...client.Object) []ctrl.Request {
	var names []string
	for _, obj := range versions {
		if pod, ok := obj.(*corev1.Pod); ok {
			names = append(names, namesOfPod(pod, cacheReader{ctx, r.client})...)
		}
	}
	return requests(versions[0].GetNamespace(), names)
}

// hasPodGroup says whether the cache has the PodGroup of a group. It does not wait for
// the echo of this controller's own writes: without it the group is looked at early.
func (r *reconciler) hasPodGroup(ctx context.Context, req ctrl.Request) bool {
	var pg scheduling.PodGroup
	return r.client.Get(ctx, req.NamespacedName, &pg, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency) == nil
}
