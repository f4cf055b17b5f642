package fluence

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// The failure handler puts a pod that failed into the queue, and has its status be written. A
// whole group may be called back at once: at most maxFailures pods are handled at a time. After
// failureWithin a pod waits for its place no longer.
const (
	maxFailures   = 16
	failureWithin = 2 * time.Second
)

// wrapFailureHandler has the pods of Fluence's profile be told only once why they wait: the scheduler
// itself tells them at every attempt, though nothing but a number may be another. The
// API server may have bound the pod already: then it waits for nothing, and is told nothing.
func wrapFailureHandler(sched *scheduler.Scheduler, pl *Fluence) {
	next, places := sched.FailureHandler, make(chan struct{}, maxFailures)
	sched.FailureHandler = func(ctx context.Context, f schedulerframework.Framework, pod *schedulerframework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		if f.ProfileName() == pl.profile {
			f = failureFramework{Framework: f, pl: pl, pod: pod.GetPodInfo().GetPod().UID}
			if p := pod.GetPodInfo().GetPod(); p.Spec.NodeName != "" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, failureWithin)
				defer cancel()
				select {
				case places <- struct{}{}:
					defer func() { <-places }()
				case <-ctx.Done():
				}
				shown, err := f.SharedInformerFactory().Core().V1().Pods().Lister().Pods(p.Namespace).Get(p.Name)
				if err == nil && shown.UID == p.UID && shown.Spec.NodeName != "" {
					sched.SchedulingQueue.Done(p.UID)
					return
				}
				// A group that gave its nodes back may ask as soon as its pods are in the
				// queue again.
				defer func() { pl.activator.activateGroups(pl.groupKey(p)) }()
			}
		}
		next(ctx, f, pod, status, nominating, start)
	}
}

// failureFramework is the framework that a failed attempt of one pod is told to.
type failureFramework struct {
	schedulerframework.Framework
	pl  *Fluence
	pod types.UID
}

// APICacher implements framework.Framework.
func (h failureFramework) APICacher() fwk.APICacher { return h.pl.podStatuses }

// EventRecorder implements framework.Framework.
func (h failureFramework) EventRecorder() events.EventRecorderLogger {
	return dedupRecorder{EventRecorderLogger: h.Framework.EventRecorder(), pl: h.pl, pod: h.pod}
}

// dedupRecorder records an event about a pod unless it is the last one again.
type dedupRecorder struct {
	events.EventRecorderLogger
	pl  *Fluence
	pod types.UID
}

// WithLogger implements events.EventRecorderLogger.
func (o dedupRecorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	o.EventRecorderLogger = o.EventRecorderLogger.WithLogger(logger)
	return o
}

// Eventf implements events.EventRecorder.
func (o dedupRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if o.pl.reported.update(o.pod, reason+"\n"+note) {
		o.EventRecorderLogger.Eventf(regarding, related, eventType, reason, action, note, args...)
	}
	if _, there := o.pl.groups.KeyOf(o.pod); !there {
		// It was deleted during its cycle, and is not forgotten later.
		o.pl.reported.forget(o.pod)
	}
}
