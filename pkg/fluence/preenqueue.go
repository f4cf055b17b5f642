package fluence

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/bindqueue"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// PreEnqueue lets one representative of a complete group into the queue, and
// those of its siblings that have a node. It runs under the queue's lock: it
// reads memory, and calls nothing that could want the queue.
func (pl *Fluence) PreEnqueue(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	// A pod with a seat needs no matcher any more.
	if why := pl.whyNotReady(); why != "" && !pl.groups.HasAssignment(pod.UID) {
		return unschedulable(why)
	}
	v := pl.groups.PreEnqueue(pod.UID, pl.now())
	if v.Lost != 0 {
		pl.activator.revokeLost(pod.UID, v.Lost)
	}
	if v.Pass {
		if v.Key == (types.NamespacedName{}) {
			return nil // it has a seat
		}
		free := pl.otherPluginsLetPass(ctx, pod)
		pl.groups.ObserveOtherPlugins(pod.UID, free)
		if !free {
			// The group would take a turn and not ask. The queue is to hear it from that
			// plugin: it knows the events that end it.
			pl.endAdmission(v.Key)
			return nil
		}
		if v.PodsToPlace > 0 && !pl.bindQueue.Admit(bindqueue.Candidate{Group: v.Key, Rank: v.Rank, Pods: v.PodsToPlace}, pl.now()) {
			signal.Send(pl.bindQueue.wakeup)
			return unschedulable("waits for its turn to ask")
		}
		return nil
	}
	if v.Message == "" {
		return unschedulable("waits for the group's representative")
	}
	return unschedulable(v.Message)
}

// otherPluginsLetPass says whether no other plugin keeps a pod out of the queue. The queue may have
// asked them before this one, and asks them in any order.
func (pl *Fluence) otherPluginsLetPass(ctx context.Context, pod *corev1.Pod) bool {
	for _, p := range pl.otherPlugins {
		if !p.PreEnqueue(ctx, pod).IsSuccess() {
			return false
		}
	}
	return true
}

func unschedulable(why string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, why) }
