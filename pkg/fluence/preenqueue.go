package fluence

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gate"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// PreEnqueue lets one representative of a complete group into the queue, and
// those of its siblings that have a node. It runs under the queue's lock: it
// reads memory, and calls nothing that could want the queue.
func (pl *Fluence) PreEnqueue(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	// A pod with a seat needs no matcher any more.
	if why := pl.notReady(); why != "" && !pl.groups.Seated(pod.UID) {
		return held(why)
	}
	v := pl.groups.Admit(pod.UID, pl.now())
	if v.Lost != 0 {
		pl.waker.lost(pod.UID, v.Lost)
	}
	if v.Pass {
		if v.Key == (types.NamespacedName{}) {
			return nil // it has a seat
		}
		free := pl.othersLetPass(ctx, pod)
		pl.groups.LetPass(pod.UID, free)
		if !free {
			// The group would take a turn and not ask. The queue is to hear it from that
			// plugin: it knows the events that end it.
			pl.asked(v.Key)
			return nil
		}
		if v.Asks > 0 && !pl.binds.Admit(gate.Asker{Group: v.Key, Rank: v.Rank, Pods: v.Asks}, pl.now()) {
			signal.Send(pl.binds.more)
			return held("waits for its turn to ask")
		}
		return nil
	}
	if v.Message == "" {
		return held("waits for the group's representative")
	}
	return held(v.Message)
}

// othersLetPass says whether no other plugin keeps a pod out of the queue. The queue may have
// asked them before this one, and asks them in any order.
func (pl *Fluence) othersLetPass(ctx context.Context, pod *corev1.Pod) bool {
	for _, p := range pl.besides {
		if !p.PreEnqueue(ctx, pod).IsSuccess() {
			return false
		}
	}
	return true
}

func held(why string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, why) }
