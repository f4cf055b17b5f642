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

// cycles is the framework of the profile, as the scheduling loop sees it. Its events are sent in
// order, and what other plugins take before a node is found is paid for.
type cycles struct {
	schedulerframework.Framework
	pl       *Fluence
	recorder events.EventRecorderLogger
}

// EventRecorder implements framework.Framework.
func (c cycles) EventRecorder() events.EventRecorderLogger { return c.recorder }

// RunPreFilterPlugins implements framework.Framework. Other plugins read what a pod asks for before
// Fluence comes, which its author may make long. So the debt of his namespace is looked at first, and
// then it pays for what they took.
func (c cycles) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	in := &cycle{began: c.pl.now()}
	state.Write(cycleKey, in)
	if held := c.pl.throttle(ctx, state, in, pod); held != nil {
		return nil, held.WithPlugin(Name), nil
	}
	result, status, by := c.Framework.RunPreFilterPlugins(ctx, state, pod)
	c.pl.payForOthers(ctx, in, pod, !status.IsSuccess())
	return result, status, by
}

// A cycle is what is known of a scheduling cycle in which a node is looked for. It is in its state.
type cycle struct {
	began time.Time
	// mayAsk says that the pod's namespace was found to be allowed to ask, in this cycle.
	mayAsk bool
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

// throttle refuses a pod that is to ask, if its namespace is in debt and may not ask now.
func (a *asker) throttle(ctx context.Context, state fwk.CycleState, in *cycle, pod *corev1.Pod) *fwk.Status {
	if !a.accounts.debts.owes(pod.Namespace, in.began) || a.mayNotAsk(pod) != "" || a.groups.Seated(pod.UID) {
		return nil
	}
	plan, out := a.groups.Plan(pod.UID, in.began)
	a.apply(ctx, out)
	if len(plan.Required) == 0 {
		return nil
	}
	owes := a.accounts.owes(plan, in.began)
	if owes == nil || a.turns.comes(plan) {
		in.mayAsk = true
		return nil
	}
	state.Write(spokenKey, spoken{})
	a.binder.asked(plan.Key)
	return a.refuse(ctx, plan, *owes)
}

// payForOthers has a pod's namespace pay for what other plugins have taken in a cycle, but for the
// sake of pods of other namespaces. In vain is that the pod was refused.
func (c *accounts) payForOthers(ctx context.Context, in *cycle, pod *corev1.Pod, inVain bool) {
	took := c.now().Sub(in.began) - in.own
	if !inVain && took <= freeAsk {
		return
	}
	if took -= min(took, c.placer.ForOthers(ctx, pod, took)); took <= 0 {
		return
	}
	c.charge(pod.Namespace, took, inVain)
}
