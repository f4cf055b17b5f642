package fluence

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// meteredFramework wraps the profile's framework for the scheduling loop. It replaces the
// event recorder, and it charges a pod's namespace for the time of the PreFilter plugins.
type meteredFramework struct {
	schedulerframework.Framework
	pl       *Fluence
	recorder events.EventRecorderLogger
}

// EventRecorder implements framework.Framework.
func (c meteredFramework) EventRecorder() events.EventRecorderLogger { return c.recorder }

// RunPreFilterPlugins implements framework.Framework. Other plugins may run before
// Fluence, and the author of a pod can make their work long. So the debt of the
// pod's namespace is checked before they run, and their time is charged afterwards.
func (c meteredFramework) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	in := &cycle{began: c.pl.now()}
	state.Write(cycleKey, in)
	if held := c.pl.refuseThrottled(ctx, state, in, pod); held != nil {
		return nil, held.WithPlugin(Name), nil
	}
	result, status, by := c.Framework.RunPreFilterPlugins(ctx, state, pod)
	c.pl.chargeOtherPlugins(ctx, in, pod, !status.IsSuccess())
	return result, status, by
}

// cycle is Fluence's data in the CycleState of one scheduling cycle.
type cycle struct {
	// began is when the cycle began.
	began time.Time
	// throttlePassed means that the throttle was checked
	// in this cycle and lets the pod's group be placed.
	throttlePassed bool
	// ownTime is the time that Fluence's own PreFilter took.
	ownTime time.Duration
}

// Clone returns c itself, because clones of a CycleState share one cycle.
func (c *cycle) Clone() fwk.StateData { return c }

const cycleKey fwk.StateKey = Name + "/cycle"

// cycleOf returns the cycle in a CycleState. It returns an empty
// cycle if the PreFilter plugins were run without meteredFramework.
func cycleOf(state fwk.CycleState) *cycle {
	if c, err := state.Read(cycleKey); err == nil {
		return c.(*cycle)
	}
	return &cycle{}
}

// refuseThrottled refuses a pod whose group would be placed now, if the
// pod's namespace is throttled. It returns nil if the pod may go on.
func (a *groupPlacer) refuseThrottled(ctx context.Context, state fwk.CycleState, in *cycle, pod *corev1.Pod) *fwk.Status {
	if !a.throttler.debts.owes(pod.Namespace, in.began) || a.whyNotPlaceable(pod) != "" || a.groups.HasAssignment(pod.UID) {
		return nil
	}
	plan, out := a.groups.Plan(pod.UID, in.began)
	a.apply(ctx, out)
	a.activator.activatePods(plan.Seated)
	if len(plan.Required) == 0 {
		a.groups.Unclaim(pod.UID) // it may have taken a seat, which PreFilter takes up
		return nil
	}
	owes := a.throttler.checkThrottle(plan, in.began)
	if owes == nil || a.reserver.takeFreePass(plan) {
		in.throttlePassed = true
		return nil
	}
	state.Write(decidedKey, decided{})
	a.binder.endAdmission(plan.Key)
	return a.refuse(ctx, plan, *owes)
}

// chargeOtherPlugins charges a pod's namespace for the time that
// other plugins took in a cycle, without the time that they spent on
// pods of other namespaces. failed means that the pod was refused.
func (c *throttler) chargeOtherPlugins(ctx context.Context, in *cycle, pod *corev1.Pod, failed bool) {
	took := c.now().Sub(in.began) - in.ownTime
	if !failed && took <= freePerAttempt {
		return
	}
	if took -= min(took, c.placer.ForeignTime(ctx, pod, took)); took <= 0 {
		return
	}
	c.charge(pod.Namespace, took, failed)
}
