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

// hush has the pods of Fluence's profile be told only once why they wait: the scheduler
// itself tells them at every attempt, though nothing but a number may be another. The
// API server may have bound the pod already: then it waits for nothing, and is told nothing.
func hush(sched *scheduler.Scheduler, pl *Fluence) {
	told, places := sched.FailureHandler, make(chan struct{}, maxFailures)
	sched.FailureHandler = func(ctx context.Context, f schedulerframework.Framework, pod *schedulerframework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		if f.ProfileName() == pl.profile {
			f = hushed{Framework: f, pl: pl, pod: pod.GetPodInfo().GetPod().UID}
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
				defer func() { pl.waker.one(pl.key(p)) }()
			}
		}
		told(ctx, f, pod, status, nominating, start)
	}
}

// hushed is the framework that a failed attempt of one pod is told to.
type hushed struct {
	schedulerframework.Framework
	pl  *Fluence
	pod types.UID
}

// APICacher implements framework.Framework.
func (h hushed) APICacher() fwk.APICacher { return h.pl.podStatuses }

// EventRecorder implements framework.Framework.
func (h hushed) EventRecorder() events.EventRecorderLogger {
	return once{EventRecorderLogger: h.Framework.EventRecorder(), pl: h.pl, pod: h.pod}
}

// once records an event about a pod unless it is the last one again.
type once struct {
	events.EventRecorderLogger
	pl  *Fluence
	pod types.UID
}

// WithLogger implements events.EventRecorderLogger.
func (o once) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	o.EventRecorderLogger = o.EventRecorderLogger.WithLogger(logger)
	return o
}

// Eventf implements events.EventRecorder.
func (o once) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if o.pl.told.isNews(o.pod, reason+"\n"+note) {
		o.EventRecorderLogger.Eventf(regarding, related, eventType, reason, action, note, args...)
	}
	if _, there := o.pl.groups.KeyOf(o.pod); !there {
		// It was deleted during its cycle, and is not forgotten later.
		o.pl.told.forget(o.pod)
	}
}
