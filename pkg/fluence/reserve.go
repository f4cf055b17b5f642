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

// Reserve confirms the pod's seat.
func (pl *Fluence) Reserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	if err := pl.groups.Reserve(pod.UID, node); err != nil {
		return fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if next := pl.groups.Next(pod.UID); len(next) > 0 {
		pl.activator.activatePods(next)
	}
	return nil
}

// Unreserve gives the seats of a group back that can no longer start together.
// A group that has started keeps them.
func (pl *Fluence) Unreserve(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	pl.inventory.ForgetBind(pod) // before the engine gives its seat to others
	pl.apply(ctx, pl.groups.Unreserve(pod.UID, pl.now(), fmt.Sprintf("pod %s could not be reserved or bound", pod.Name)))
	pl.bindQueue.Failed(pod.UID, pl.now())
	if !pl.groups.HasAssignment(pod.UID) {
		pl.unexpect(string(pod.UID))
	}
	pl.bindQueue.updateIdle()
	signal.Send(pl.bindQueue.wakeup)
}

// permitTimeout is the framework's own limit: it is the group's deadline that
// ends the wait, with its reason.
const permitTimeout = 15 * time.Minute

// Permit lets nobody bind before the group's minimum is reserved.
func (pl *Fluence) Permit(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) (*fwk.Status, time.Duration) {
	ok, others := pl.groups.Permit(pod.UID)
	if !ok {
		return fwk.NewStatus(fwk.Wait, "waits for the rest of the group"), permitTimeout
	}
	pl.bindQueue.Permitted(append([]types.UID{pod.UID}, others...), pl.now())
	for _, uid := range others {
		pl.allow(uid)
	}
	return nil, 0
}

func (pl *Fluence) allow(uid types.UID) {
	if wp := pl.handle.GetWaitingPod(uid); wp != nil {
		wp.Allow(Name)
	}
}

// sweepWaiting makes good for a pod that was allowed or rejected in the moment
// before the framework had it among its waiting pods.
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
		wp.Reject(Name, whyRevoked)
	}
	for _, wp := range allow {
		wp.Allow(Name)
	}
}

// PostFilter takes note that the filters refused the node of a seat. It says
// that nothing can be done about it, and comes first: nobody is evicted for a
// pod whose group could not start anyway.
func (pl *Fluence) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if c, err := state.Read(assignedNodeKey); err == nil {
		node := string(c.(assignedNode))
		why := fmt.Sprintf("node %s was matched for pod %s, but %s", node, pod.Name, statuses.Get(node).Message())
		klog.FromContext(ctx).V(4).Info("Matched node refused", "group", pl.groupKey(pod), "pod", klog.KObj(pod), "node", node, "reason", why)
		if status := statuses.Get(node); status.Plugin() != names.NodeResourcesFit {
			pl.placer.ObserveRejection(pl.groupKey(pod), pod.UID, node, pl.groups.ReservedOn(pod.UID, node), status)
		}
		pl.apply(ctx, pl.groups.FilterRejected(pod.UID, pl.now(), why))
	} else if _, err := state.Read(decidedKey); err != nil {
		// Another plugin refused the pod on all nodes, before this one was asked.
		// Those that can be placed without it go on.
		pl.endAdmission(pl.groupKey(pod))
		why := fmt.Sprintf("pod %s: %s", pod.Name, statuses.Get("").Message())
		pl.apply(ctx, pl.groups.RefusePod(pod.UID, pl.now(), reason.NodesRuledOut, why))
	}
	// A nomination, of a former scheduler perhaps, would keep room on a node that
	// the pod may not come to.
	clear := &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}}
	return clear, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// PodGroupPostFilter does the same for a group of the scheduler's own kind.
func (pl *Fluence) PodGroupPostFilter(context.Context, fwk.PodGroupCycleState, fwk.PodGroupInfo, fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
}

// PostBind records progress.
func (pl *Fluence) PostBind(ctx context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	out := pl.groups.ObserveBind(pod.UID)
	pl.bindQueue.Bound(pod.UID, pl.now())
	pl.bindQueue.updateIdle()
	signal.Send(pl.bindQueue.wakeup)
	pl.placer.Forget(pl.groupKey(pod))
	pl.apply(ctx, out)
}
