package fluence

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/placement"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/pkg/report"
)

// assignedNode is the node of a pod's seat, in the state of its scheduling cycle.
type assignedNode string

// Clone returns the same: it never changes.
func (c assignedNode) Clone() fwk.StateData { return c }

const assignedNodeKey fwk.StateKey = Name + "/node"

// whyOrder is what a pod is told that has a node which another of its group has to be
// placed before.
const whyOrder = "waits for its turn among its siblings"

// decided is in the state of a scheduling cycle that this plugin had its say in.
type decided struct{}

// Clone returns the same: it never changes.
func (s decided) Clone() fwk.StateData { return s }

const decidedKey fwk.StateKey = Name + "/spoken"

// PreFilter gives the pod the node that its group's match chose for it. For a
// representative it asks the matcher first, for the whole group.
func (pl *Fluence) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	// 1. Of a pod that this plugin asks other plugins about it says nothing itself.
	if placement.IsProbe(state) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(decidedKey, decided{})
	in, began := cycleOf(state), pl.now()
	defer func() { in.own = pl.now().Sub(began) }()
	if !pl.groups.HasAssignment(pod.UID) {
		defer pl.endAdmission(pl.groupKey(pod))
	}

	// 2. A pod without a seat needs a matcher that answers.
	if why := pl.whyNotPlaceable(pod); why != "" {
		return nil, unschedulable(why)
	}

	// 3. Who goes before the pod, and does not stand before it in the queue, asks first.
	silent := pl.placeOvertaken(ctx, pod, nodes)
	if why := pl.whyNotPlaceable(pod); why != "" {
		return nil, unschedulable(why)
	}

	// 4. Find out what there is to ask for: nothing where the pod has a seat, or has to wait.
	plan, out := pl.groups.Plan(pod.UID, pl.now())
	pl.apply(ctx, out)
	if plan.Node == "" && plan.Wait.Message != "" {
		return nil, unschedulable(plan.Wait.Message)
	}

	// 5. Ask for the whole group. A cycle waits once for a matcher that does not answer; that a
	// ping was answered since says little.
	node, refused := plan.Node, silent
	if node == "" && silent == nil {
		node, refused = pl.placeGroup(ctx, plan, in.throttlePassed, nodes)
	}
	switch {
	case plan.Node != "":
	case refused != nil:
		return nil, pl.refuse(ctx, plan, *refused)
	case node == "":
		return nil, unschedulable(whyOrder)
	}

	// 6. The filters cannot see a node that is new in this cycle, but in one of the pod's next.
	if pl.isNewNode(node) {
		pl.groups.Unclaim(pod.UID)
		if plan.Node == "" {
			pl.activator.activatePods([]*corev1.Pod{pod})
		}
		return nil, unschedulable(fmt.Sprintf("node %s is new and looked at next", node))
	}

	// 7. The pod may come to its own node alone.
	state.Write(assignedNodeKey, assignedNode(node))
	return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
}

// isNewNode says whether a node is in the cluster, but not in what the scheduling cycle sees
// of it: the matcher may hear of a node before the scheduler does.
func (a *groupPlacer) isNewNode(node string) bool {
	if _, err := a.handle.SnapshotSharedLister().NodeInfos().Get(node); err == nil {
		return false
	}
	_, err := a.handle.SharedInformerFactory().Core().V1().Nodes().Lister().Get(node)
	return err == nil
}

// whyNotPlaceable says why a pod cannot be placed now, or nothing. One that has a seat
// needs no matcher.
func (a *groupPlacer) whyNotPlaceable(pod *corev1.Pod) string {
	if a.groups.HasAssignment(pod.UID) {
		return ""
	}
	return a.whyNotReady()
}

// maxOvertaken bounds how often a cycle asks for others first.
const maxOvertaken = 4

// placeOvertaken asks for what goes before a pod and does not stand before it in the
// queue. If the matcher gives no answer, it returns what the pod itself is to be told:
// it asks again after a while too, since what it waits for may have happened already.
func (a *groupPlacer) placeOvertaken(ctx context.Context, pod *corev1.Pod, nodes []fwk.NodeInfo) (silent *gang.Refusal) {
	for range maxOvertaken {
		if a.whyNotReady() != "" {
			return nil
		}
		uid, ok := a.groups.MoreUrgent(pod.UID, a.now())
		if !ok {
			return nil
		}
		plan, out := a.groups.Plan(uid, a.now())
		a.apply(ctx, out)
		if len(plan.Required) == 0 {
			return nil
		}
		if _, refused := a.placeGroup(ctx, plan, false, nodes); refused != nil {
			a.refuse(ctx, plan, *refused)
			if refused.Reason == reason.MatcherUnavailable {
				return &gang.Refusal{Reason: refused.Reason, Message: refused.Message, RetryOn: refused.RetryOn, Backoff: true}
			}
			continue
		}
		a.groups.Unclaim(uid)
		a.activator.activatePods(plan.Required)
	}
	return nil
}

// refuse records a refusal and turns it into the pod's status.
func (a *groupPlacer) refuse(ctx context.Context, plan gang.Plan, r gang.Refusal) *fwk.Status {
	if r.Reason == reason.MatcherUnavailable {
		r.WaitsFor = gang.WaitsForAnswer
	}
	a.apply(ctx, a.groups.Refuse(plan, r, a.now()))
	a.groupReporter.forgetGone(plan.Key)
	if r.Reason == reason.NeverFits {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, r.Message)
	}
	return fwk.NewStatus(fwk.Unschedulable, r.Message)
}

// reportRefusal logs, counts and reports a refusal. On a lone pod the scheduler itself
// says what it was refused for.
func (tl *groupReporter) reportRefusal(pod *corev1.Pod, reason, message string) {
	tl.counters.refusals.WithLabelValues(reason).Inc()
	m, ok := tl.groups.GroupOf(pod.UID)
	if !ok {
		return
	}
	defer tl.forgetGone(m.Key)
	tl.logRefusal(m.Key, reason, message)
	switch {
	case !m.InPodGroup:
		return
	case m.Started && m.Missing == 0:
		// The group is placed; what is late is told with that.
		return
	case m.Started:
		message = fmt.Sprintf("%d of %d pods have nodes; %s", m.Minimum-m.Missing, m.Minimum, message)
	}
	tl.reporter.Report(m.Key, report.NotScheduled(reason, message), pod)
}

// PreFilterExtensions returns nil: pods that come and go elsewhere do not move a
// seat.
func (pl *Fluence) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter lets the one node pass that PreFilter chose.
func (pl *Fluence) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	c, err := state.Read(assignedNodeKey)
	if err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no node was matched")
	}
	if string(c.(assignedNode)) != node.Node().Name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "another node was matched")
	}
	return nil
}
