package fluxjob

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flux-k8s/fluence/pkg/fairqueue"
	"github.com/flux-k8s/fluence/pkg/pace"
)

// An announcer has the workloads in queues of which no event has told yet. While many come, their FluxJobs go first: the label of the
// queue already says where a workload waits.
type announcer struct {
	pace    *pace.Pace
	waiting workqueue.TypedInterface[ctrl.Request]
}

func newAnnouncer() *announcer {
	order := fairqueue.NewRoundRobin(func(r ctrl.Request) string { return r.Namespace })
	return &announcer{pace.New(), workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[ctrl.Request]{Queue: order})}
}

// queuedNote tells that a workload waits in a queue.
func queuedNote(queue, fluxJob string) []note {
	return normal(eventQueued, "waits in queue %s as FluxJob %s", queue, fluxJob)
}

// announce tells that the FluxJob of a workload was made: now, or later in announceLater.
func (r *reconciler) announce(req ctrl.Request, o *observation, notes []note) {
	r.announcer.pace.Came()
	if r.announcer.pace.Allow() {
		r.send(o, notes)
	} else {
		r.announcer.waiting.Add(req)
	}
}

// announceLater sends events of workloads that still wait, until ctx ends.
func (r *reconciler) announceLater(ctx context.Context) {
	a := r.announcer
	context.AfterFunc(ctx, a.waiting.ShutDown)
	for {
		req, down := a.waiting.Get()
		if down || ctx.Err() != nil {
			return
		}
		r.announceOne(ctx, req)
		a.waiting.Done(req)
	}
}

// announceOne sends the event of a workload, unless it does not wait any more: then another event says more.
func (r *reconciler) announceOne(ctx context.Context, req ctrl.Request) {
	waits := func() *observation {
		owner, ok := ownerOf(req.Name)
		if !ok {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
		defer cancel()
		o, err := r.observe(ctx, req.Namespace, owner)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("An event that a workload waits is not sent", "workload", req, "err", err)
			return nil
		}
		if o.workload == nil || o.fluxJob == nil || o.fluxJob.Status.Allocation != nil || o.workload.ended != nil {
			return nil
		}
		return o
	}
	if waits() == nil || r.announcer.pace.Wait(ctx) != nil {
		return
	}
	if o := waits(); o != nil {
		r.send(o, queuedNote(o.fluxJob.Spec.Queue, o.fluxJob.Name))
	}
}
