package fluence

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/bindqueue"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// PreEnqueue lets into the scheduling queue one representative of
// each complete group, and every pod that has an assignment. It runs
// under the queue's lock, so it must not block or call the queue.
func (pl *Fluence) PreEnqueue(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	// A pod with an assignment does not need the matcher any more.
	if why := pl.whyNotReady(); why != "" && !pl.groups.HasAssignment(pod.UID) {
		return unschedulable(why)
	}
	v := pl.groups.PreEnqueue(pod.UID, pl.now())
	if v.Abandoned != 0 {
		pl.activator.revokeAbandoned(pod.UID, v.Abandoned)
	}
	if v.Pass {
		if v.Key == (types.NamespacedName{}) {
			return nil // the pod has an assignment
		}
		free := pl.otherPluginsLetPass(ctx, pod)
		pl.groups.ObserveOtherPlugins(pod.UID, free)
		if !free {
			// Another plugin holds this pod, so the group could not use its admission:
			// end the admission. Return nil, so that the queue records the other plugin
			// as the one that holds the pod and requeues the pod on that plugin's events.
			pl.endAdmission(v.Key)
			return nil
		}
		if v.PodsToPlace > 0 && !pl.bindQueue.Admit(bindqueue.Candidate{Group: v.Key, Rank: v.Rank, Pods: v.PodsToPlace}, pl.now()) {
			signal.Send(pl.bindQueue.wakeup)
			return unschedulable(whyNotAdmitted)
		}
		return nil
	}
	if v.Message == "" {
		return unschedulable("waits while another pod of the group is scheduled on behalf of all")
	}
	return unschedulable(v.Message)
}

// otherPluginsLetPass reports whether all other PreEnqueue plugins let a pod pass.
// The queue runs the plugins in any order, so the others may not have run yet.
func (pl *Fluence) otherPluginsLetPass(ctx context.Context, pod *corev1.Pod) bool {
	for _, p := range pl.otherPlugins {
		if !p.PreEnqueue(ctx, pod).IsSuccess() {
			return false
		}
	}
	return true
}

// unschedulable returns the status of a pod that has to wait, with the reason.
func unschedulable(why string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, why) }
