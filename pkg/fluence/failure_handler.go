package fluence

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
)

// kube-scheduler's failure handler requeues a pod and writes its status. A
// whole group may fail at once, so at most maxConcurrentFailures pods that had a node
// are handled at a time. A pod waits for its place at most failureTimeout and
// is then handled anyway. The same deadline holds for the handling itself.
const (
	maxConcurrentFailures = 16
	failureTimeout        = 2 * time.Second
)

// wrapFailureHandler wraps the scheduler's failure handler for the pods of Fluence's
// profile. It suppresses an event that repeats the last one except for its numbers;
// kube-scheduler would send one for each attempt. If the API already shows the pod on
// a node, the pod is bound and does not wait: it is only marked as done in the queue.
func wrapFailureHandler(sched *scheduler.Scheduler, pl *Fluence) {
	next, semaphore := sched.FailureHandler, make(chan struct{}, maxConcurrentFailures)
	sched.FailureHandler = func(ctx context.Context, f schedulerframework.Framework, pod *schedulerframework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		if f.ProfileName() == pl.profile {
			f = failureFramework{Framework: f, pl: pl, pod: pod.GetPodInfo().GetPod().UID}
			if p := pod.GetPodInfo().GetPod(); p.Spec.NodeName != "" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, failureTimeout)
				defer cancel()
				select {
				case semaphore <- struct{}{}:
					defer func() { <-semaphore }()
				case <-ctx.Done():
				}
				shown, err := f.SharedInformerFactory().Core().V1().Pods().Lister().Pods(p.Namespace).Get(p.Name)
				if err == nil && shown.UID == p.UID && shown.Spec.NodeName != "" {
					sched.SchedulingQueue.Done(p.UID)
					return
				}
				// A group that has released its nodes may be placed once its pods are in the
				// queue again. The handler puts them there, so the group is activated after it.
				defer func() { pl.activator.activateGroups(pl.groupKey(p)) }()
			}
		}
		next(ctx, f, pod, status, nominating, start)
		if f.ProfileName() == pl.profile {
			pl.nominateAgain(pod.GetPodInfo().GetPod())
		}
	}
}

// failureFramework is the framework that the failure handler gets for one pod.
type failureFramework struct {
	schedulerframework.Framework
	pl  *Fluence
	pod types.UID
}

// APICacher implements framework.Framework.
func (h failureFramework) APICacher() fwk.APICacher {
	if node, _ := h.pl.claimedNode(h.pod); node != "" {
		return preemptingStatuses{h.pl.podStatuses}
	}
	return h.pl.podStatuses
}

// preemptingStatuses writes the statuses of pods for which others are evicted. The reason is not Unschedulable: for
// pods with that reason cluster autoscalers add nodes.
type preemptingStatuses struct{ *report.PodStatusWriter }

// PatchPodStatus implements fwk.APICacher.
func (s preemptingStatuses) PatchPodStatus(pod *corev1.Pod, conditions []*corev1.PodCondition, nominating *fwk.NominatingInfo) (<-chan error, error) {
	conditions = slices.Clone(conditions)
	for i, c := range conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			conditions[i] = c.DeepCopy()
			conditions[i].Reason = reason.Preempting
		}
	}
	return s.PodStatusWriter.PatchPodStatus(pod, conditions, nominating)
}

// EventRecorder implements framework.Framework.
func (h failureFramework) EventRecorder() events.EventRecorderLogger {
	return dedupRecorder{EventRecorderLogger: h.Framework.EventRecorder(), pl: h.pl, pod: h.pod}
}

// dedupRecorder drops an event about a pod that repeats the last one.
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
		// The pod was deleted during its cycle, so podGone has run already: drop the entry here.
		o.pl.reported.forget(o.pod)
	}
}
