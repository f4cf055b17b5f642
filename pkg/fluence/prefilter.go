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

// assignedNode is the node of a pod's assignment. PreFilter
// writes it to the CycleState for Filter and PostFilter.
type assignedNode string

// Clone returns c itself, because an assignedNode never changes.
func (c assignedNode) Clone() fwk.StateData { return c }

const assignedNodeKey fwk.StateKey = Name + "/node"

// whyWaitsForOrder is the message for a pod that has a node
// but must be placed after another pod of its group.
const whyWaitsForOrder = "has a node; waits until the pods that come before it in its group have their nodes"

// decided marks a CycleState in which Fluence has decided. Without the mark,
// PostFilter knows that another plugin rejected the pod before Fluence ran.
type decided struct{}

// Clone returns s itself, because a decided never changes.
func (s decided) Clone() fwk.StateData { return s }

const decidedKey fwk.StateKey = Name + "/decided"

// PreFilter gives the pod the node of its assignment.
// For a representative it first places the whole group.
func (pl *Fluence) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	// 1. Skip probes: the placer runs the profile's PreFilter plugins for
	// other pods of the group, and Fluence must not answer its own question.
	if placement.IsProbe(state) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(decidedKey, decided{})
	in, began := cycleOf(state), pl.now()
	pl.cycle++
	defer func() { in.ownTime = pl.now().Sub(began) }()
	if !pl.groups.HasAssignment(pod.UID) {
		defer pl.endAdmission(pl.groupKey(pod))
	}

	// 2. A pod without an assignment needs a matcher that answers.
	if why := pl.whyNotPlaceable(pod); why != "" {
		return nil, unschedulable(why)
	}

	pl.resumeEvictions(pl.podGroups, pl.owners)

	// 3. First look for seats that were lost, and place pods that go before this pod although the queue
	// has them behind it.
	pl.searchSeats(ctx, nodes)
	noAnswer := pl.placeReplacementsFirst(ctx, pod, nodes)
	if why := pl.whyNotPlaceable(pod); why != "" {
		return nil, unschedulable(why)
	}

	// 4. Get the plan. If the pod has an assignment or must wait, the plan has nothing to place.
	plan, out := pl.groups.Plan(pod.UID, pl.now())
	pl.apply(ctx, out)
	pl.activator.activatePods(plan.Seated)
	if plan.Node == "" && plan.Wait.Message != "" {
		return nil, unschedulable(plan.Wait.Message)
	}

	// 5. Place the whole group, except if the matcher did not answer in step 3. A cycle waits only
	// once for a matcher that does not answer, even if the matcher has answered a ping since.
	node, refused := plan.Node, noAnswer
	if node == "" && noAnswer == nil {
		node, refused = pl.placeGroup(ctx, plan, in.throttlePassed, nodes)
	}
	switch {
	case plan.Node != "":
	case refused != nil:
		return nil, pl.refuse(ctx, plan, *refused)
	case node == "":
		return nil, unschedulable(whyWaitsForOrder)
	}

	// 6. The matcher may know a node that is not in this
	// cycle's snapshot. Then leave the pod to a later cycle.
	if pl.isNewNode(node) {
		pl.groups.Unclaim(pod.UID)
		if plan.Node == "" {
			pl.activator.activatePods([]*corev1.Pod{pod})
		}
		return nil, unschedulable(fmt.Sprintf("node %s was added during this scheduling cycle; the pod is tried again in the next one", node))
	}

	// 7. Restrict the pod to its node.
	state.Write(assignedNodeKey, assignedNode(node))
	return &fwk.PreFilterResult{NodeNames: sets.New(node)}, nil
}

// isNewNode reports whether a node exists but is missing in the snapshot
// of this cycle. The matcher may know a node before the scheduler does.
func (a *groupPlacer) isNewNode(node string) bool {
	if _, err := a.handle.SnapshotSharedLister().NodeInfos().Get(node); err == nil {
		return false
	}
	_, err := a.handle.SharedInformerFactory().Core().V1().Nodes().Lister().Get(node)
	return err == nil
}

// whyNotPlaceable returns why a pod cannot be placed now. It returns "" if
// the pod can be placed. A pod with an assignment does not need the matcher.
func (a *groupPlacer) whyNotPlaceable(pod *corev1.Pod) string {
	if a.groups.HasAssignment(pod.UID) {
		return ""
	}
	return a.whyNotReady()
}

// maxReplacementsPerCycle limits how many other pods a cycle places before its own pod.
const maxReplacementsPerCycle = 4

// placeReplacementsFirst places pods that replace lost members and are behind this pod in the
// queue. If the matcher does not answer, it returns the refusal of this pod. That refusal
// also has a backoff, because the event that it waits for may have happened already.
func (a *groupPlacer) placeReplacementsFirst(ctx context.Context, pod *corev1.Pod, nodes []fwk.NodeInfo) (noAnswer *gang.Refusal) {
	for range maxReplacementsPerCycle {
		if a.whyNotReady() != "" {
			return nil
		}
		uid, ok := a.groups.MoreUrgent(pod.UID, a.now())
		if !ok {
			return nil
		}
		plan, out := a.groups.Plan(uid, a.now())
		a.apply(ctx, out)
		a.activator.activatePods(plan.Seated)
		if len(plan.Required) == 0 {
			a.groups.Unclaim(uid) // it may have taken a seat, which its own cycle takes up
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

// refuse records a refusal and returns it as the pod's status.
func (a *groupPlacer) refuse(ctx context.Context, plan gang.Plan, r gang.Refusal) *fwk.Status {
	if r.Reason == reason.MatcherUnavailable {
		r.WaitsFor = gang.WaitsForAnswer
	}
	a.apply(ctx, a.groups.Refuse(plan, r, a.now()))
	a.groupReporter.forgetIfGone(plan.Key)
	if r.Reason == reason.NeverFits {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, r.Message)
	}
	return fwk.NewStatus(fwk.Unschedulable, r.Message)
}

// reportRefusal logs, counts and reports a refusal. It does not report the refusal
// of a lone pod, because the scheduler itself writes the reason to the pod.
func (tl *groupReporter) reportRefusal(pod *corev1.Pod, reason, message string) {
	tl.counters.refusals.WithLabelValues(reason).Inc()
	m, ok := tl.groups.GroupOf(pod.UID)
	if !ok {
		return
	}
	defer tl.forgetIfGone(m.Key)
	tl.logRefusal(m.Key, reason, message)
	switch {
	case !m.InPodGroup:
		return
	case m.Started && m.Missing == 0:
		// The group is placed. The message about that also covers its late pods.
		return
	case m.Started:
		message = fmt.Sprintf("%d of %d pods have nodes; %s", m.Required-m.Missing, m.Required, message)
	}
	tl.reporter.Report(m.Key, report.NotScheduled(reason, message), pod)
}

// PreFilterExtensions returns nil: pods that come and go do not change the assigned node.
func (pl *Fluence) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter lets only the node pass that PreFilter wrote to the CycleState.
func (pl *Fluence) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	c, err := state.Read(assignedNodeKey)
	if err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod has no assigned node")
	}
	if assigned := string(c.(assignedNode)); assigned != node.Node().Name {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod is assigned to node "+assigned)
	}
	return nil
}
