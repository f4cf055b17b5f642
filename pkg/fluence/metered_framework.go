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

// meteredFramework is the framework of the profile, as the scheduling loop sees it. Its events are sent in
// order, and what other plugins take before a node is found is paid for.
type meteredFramework struct {
	schedulerframework.Framework
	pl       *Fluence
	recorder events.EventRecorderLogger
}

// EventRecorder implements framework.Framework.
func (c meteredFramework) EventRecorder() events.EventRecorderLogger { return c.recorder }

// RunPreFilterPlugins implements framework.Framework. Other plugins read what a pod asks for before
// Fluence comes, which its author may make long. So the debt of his namespace is looked at first, and
// then it pays for what they took.
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

// A cycle is what is known of a scheduling cycle in which a node is looked for. It is in its state.
type cycle struct {
	began time.Time
	// throttlePassed says that the pod's namespace was found to be allowed to ask, in this cycle.
	throttlePassed bool
	// own is what Fluence's PreFilter took.
	own time.Duration
}

// Clone returns the same: a cycle is one.
func (c *cycle) Clone() fwk.StateData { return c }

const cycleKey fwk.StateKey = Name + "/cycle"

// cycleOf returns the cycle of a state; a new one where the scheduling loop has not begun it.
func cycleOf(state fwk.CycleState) *cycle {
	if c, err := state.Read(cycleKey); err == nil {
		return c.(*cycle)
	}
	return &cycle{}
}

// refuseThrottled refuses a pod that is to ask, if its namespace is in debt and may not ask now.
func (a *groupPlacer) refuseThrottled(ctx context.Context, state fwk.CycleState, in *cycle, pod *corev1.Pod) *fwk.Status {
	if !a.accounts.debts.hasDebt(pod.Namespace, in.began) || a.whyNotPlaceable(pod) != "" || a.groups.HasAssignment(pod.UID) {
		return nil
	}
	plan, out := a.groups.Plan(pod.UID, in.began)
	a.apply(ctx, out)
	if len(plan.Required) == 0 {
		return nil
	}
	owes := a.accounts.checkThrottle(plan, in.began)
	if owes == nil || a.reserver.useFreePass(plan) {
		in.throttlePassed = true
		return nil
	}
	state.Write(decidedKey, decided{})
	a.binder.endAdmission(plan.Key)
	return a.refuse(ctx, plan, *owes)
}

// chargeOtherPlugins has a pod's namespace pay for what other plugins have taken in a cycle, but for the
// sake of pods of other namespaces. In vain is that the pod was refused.
func (c *accounts) chargeOtherPlugins(ctx context.Context, in *cycle, pod *corev1.Pod, failed bool) {
	took := c.now().Sub(in.began) - in.own
	if !failed && took <= freePerAttempt {
		return
	}
	if took -= min(took, c.placer.ForeignTime(ctx, pod, took)); took <= 0 {
		return
	}
	c.charge(pod.Namespace, took, failed)
}
