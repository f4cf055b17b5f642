package fluence

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/signal"
)

// Reserve confirms the pod's assignment.
func (pl *Fluence) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	// This comes first: from groups.Reserve on, the assignment may be revoked at any moment. The queue
	// of releases must know by then that the scheduler's cache counts the pod on its node.
	pl.releases.assume(pod.UID)
	if err := pl.groups.Reserve(pod.UID, node); err != nil {
		return fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if next := pl.groups.Next(pod.UID); len(next) > 0 {
		pl.activator.activatePods(next)
	}
	return nil
}

// Unreserve handles a pod that will not be bound in this cycle. If the group has not
// started, all its assignments are revoked, because its pods can no longer start
// together. If the group has started, the pod keeps its assignment and is tried again.
func (pl *Fluence) Unreserve(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) {
	pl.inventory.ForgetBind(pod) // before the matcher gives its room to others
	pl.releases.endCycle(pod.UID)
	pl.apply(ctx, pl.groups.Unreserve(pod.UID, pl.now(), fmt.Sprintf("pod %s could not be reserved on node %s, or bound to it", pod.Name, node)))
	pl.bindQueue.Failed(pod.UID, pl.now())
	if !pl.groups.HasAssignment(pod.UID) {
		pl.removeFromBindQueue(string(pod.UID))
	}
	pl.bindQueue.updateIdle()
	signal.Send(pl.bindQueue.wakeup)
}

// permitTimeout is the longest wait that the framework allows. The wait
// normally ends earlier, at the group's deadline, with the reason for that.
const permitTimeout = 15 * time.Minute

// Permit holds a pod until the group's minimum is reserved.
// Then all pods of the group that wait may be bound.
func (pl *Fluence) Permit(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	ok, others := pl.groups.Permit(pod.UID)
	if !ok {
		return fwk.NewStatus(fwk.Wait, "waits until the pods that the group starts with are reserved"), permitTimeout
	}
	pl.bindQueue.Permitted(append([]types.UID{pod.UID}, others...), pl.now())
	for _, uid := range others {
		pl.allow(uid)
	}
	return nil, 0
}

// allow ends the wait of a pod in Permit.
func (pl *Fluence) allow(uid types.UID) {
	if wp := pl.handle.GetWaitingPod(uid); wp != nil {
		wp.Allow(Name)
	}
}

// sweepWaiting repeats decisions about pods in Permit. A decision that came
// just before the framework added the pod to its waiting pods had no effect.
func (w *watcher) sweepWaiting() {
	var allow, reject []fwk.WaitingPod
	w.handle.IterateOverWaitingPods(func(wp fwk.WaitingPod) {
		if wp.GetPod().Spec.SchedulerName != w.handle.ProfileName() {
			return
		}
		switch waits, mayBind := w.groups.StillWaits(wp.GetPod().UID); {
		case !waits:
			reject = append(reject, wp)
		case mayBind:
			allow = append(allow, wp)
		}
	})
	for _, wp := range reject {
		wp.Reject(Name, w.groups.WhyNotReserved(wp.GetPod().UID))
	}
	for _, wp := range allow {
		wp.Allow(Name)
	}
}

// PostFilter records that the filters rejected the assigned node of a pod. It
// returns UnschedulableAndUnresolvable and comes before DefaultPreemption, so
// that no pod is evicted for one whose group could not start anyway.
func (pl *Fluence) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if c, err := state.Read(assignedNodeKey); err == nil {
		node := string(c.(assignedNode))
		why := fmt.Sprintf("node %s was matched for pod %s, but %s", node, pod.Name, statuses.Get(node).Message())
		klog.FromContext(ctx).V(4).Info("A filter rejected the assigned node of a pod", "group", pl.groupKey(pod), "pod", klog.KObj(pod), "node", node, "reason", why)
		if status := statuses.Get(node); status.Plugin() != names.NodeResourcesFit {
			pl.placer.ObserveRejection(pl.groupKey(pod), pod.UID, node, pl.groups.ReservedOn(pod.UID, node), status)
		}
		pl.apply(ctx, pl.groups.FilterRejected(pod.UID, pl.now(), why))
		if statuses.Get(node).Plugin() != names.NodeResourcesFit {
			assignmentRefused(pl.base, pod, node, why)
		}
	} else if _, err := state.Read(decidedKey); err != nil {
		// Another PreFilter plugin rejected the pod before Fluence ran.
		// The rest of the group may still be placed without this pod.
		pl.endAdmission(pl.groupKey(pod))
		why := fmt.Sprintf("pod %s: %s", pod.Name, statuses.Get("").Message())
		pl.apply(ctx, pl.groups.RefusePod(pod.UID, pl.now(), reason.NodesRuledOut, why))
		roomRefusedOn(pl.base, pl.groupKey(pod), nil, nil, why)
	}
	return &fwk.PostFilterResult{NominatingInfo: pl.nominationAfterRefusal(pod)}, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// PodGroupPostFilter prevents preemption for kube-scheduler's own pod groups.
func (pl *Fluence) PodGroupPostFilter(context.Context, fwk.PodGroupCycleState, fwk.PodGroupInfo, fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// PostBind records that the pod is bound.
func (pl *Fluence) PostBind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	out := pl.groups.ObserveBind(pod.UID)
	pl.releases.endCycle(pod.UID)
	pl.bindQueue.Bound(pod.UID, pl.now())
	pl.bindQueue.updateIdle()
	signal.Send(pl.bindQueue.wakeup)
	pl.placer.Forget(pl.groupKey(pod))
	pl.apply(ctx, out)
}
