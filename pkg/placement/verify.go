package placement

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/placement/interpod"
)

// maxFilterRuns bounds the runs of the filters in one verification.
const maxFilterRuns = 1 << 14

// A rejection records that a filter rejected a member on its node, with the members
// before it placed.
type rejection struct {
	shape  int
	pod    string
	node   string
	status *fwk.Status
}

// String says which pod was rejected on which node, by which filter and why.
func (o rejection) String() string {
	by := ""
	if p := o.status.Plugin(); p != "" {
		by = " by " + p
	}
	return fmt.Sprintf("pod %s was rejected on node %s%s: %s", o.pod, o.node, by, o.status.Message())
}

// A verification is the result of verify.
type verification struct {
	// order lists the indices of the slots that passed, in the order in which they passed.
	order []int
	// rejections are the rejections of the other slots.
	rejections []rejection
}

// A simulation is the cluster with the members that were placed so far.
type simulation struct {
	p              *Placer
	q              *attempt
	states         []fwk.CycleState
	preFilterNodes []sets.Set[string] // by shape, the nodes that PreFilter leaves; nil means all
	leftOut        []string           // by shape, the message for the other nodes
	infos          map[string]fwk.NodeInfo
	clones         map[string]fwk.NodeInfo
	skews          []interpod.SkewTracker
	placed         []placedPod
	taken          []int // by shape, how many of its pods are placed
	filterRuns     int
	away           []awayPod
}

// An awayPod is a pod that the simulation counts as gone. node is its node without it.
type awayPod struct {
	info fwk.PodInfo
	node fwk.NodeInfo
}

type placedPod struct {
	shape int
	info  fwk.PodInfo
	node  fwk.NodeInfo
}

// verify simulates the placement: it takes the slots one by one, runs the profile's
// filters with the members placed so far, and places a member if the filters accept
// it. If the order matters, verify tries the rejected ones again until none of them
// passes. Each slot is a shape and a node. The pods that are away count as gone; the nodes of
// the attempt lack them already. It may only be called inside a scheduling
// cycle. It returns a refusal if PreFilter rejects a pod, or if the budget is used up.
func (p *Placer) verify(ctx context.Context, q *attempt, targets []interpod.Target, away []awayPod) (verification, *gang.Refusal) {
	st := &simulation{
		p: p, q: q, away: away, infos: make(map[string]fwk.NodeInfo, len(q.nodes)), clones: map[string]fwk.NodeInfo{},
		skews: q.constraints.SkewTrackers(), taken: make([]int, len(q.shapes)),
	}
	for _, n := range q.nodes {
		st.infos[n.Node().Name] = n
	}
	if refused := st.prepare(ctx); refused != nil {
		return verification{}, refused
	}
	var v verification
	pending := q.constraints.Order(targets)
	for len(pending) > 0 {
		v.rejections = v.rejections[:0]
		left := st.tryAll(ctx, targets, pending, &v)
		if q.constraints.IsStopped() {
			return verification{}, q.budgetRefusal()
		}
		if len(left) == len(pending) || !q.constraints.InOrder() {
			break
		}
		pending = left
	}
	return v, nil
}

// prepare runs the PreFilter plugins for each shape.
func (st *simulation) prepare(ctx context.Context) *gang.Refusal {
	for _, shape := range st.q.shapes {
		if st.q.constraints.IsStopped() {
			return st.q.budgetRefusal()
		}
		state := schedulerframework.NewCycleState()
		state.Write(probeKey, probe{})
		result, status, plugins := st.p.preFilter(ctx, st.q.budget, state, shape.Pods[0])
		if !status.IsSuccess() {
			return preFilterRefusal(shape.Pods[0], status)
		}
		if refused := removePods(ctx, st.p.Handle, st.q.budget, state, shape.Pods[0], st.away); refused != nil {
			return refused
		}
		state.SetSkipFilterPlugins(state.GetSkipFilterPlugins().Union(skippedFilters))
		st.states = append(st.states, state)
		var only sets.Set[string]
		var leftOut string
		if !result.AllNodes() {
			only, leftOut = result.NodeNames, whyLeftOut(plugins)
		}
		st.preFilterNodes = append(st.preFilterNodes, only)
		st.leftOut = append(st.leftOut, leftOut)
	}
	return nil
}

// removePods removes pods from the state of the PreFilter plugins for a pod. It returns a refusal if a plugin
// fails, or if the budget is used up.
func removePods(ctx context.Context, handle fwk.Handle, budget *Budget, state fwk.CycleState, pod *corev1.Pod, away []awayPod) *gang.Refusal {
	for i, gone := range away {
		if i%checkBudgetEveryPods == checkBudgetEveryPods-1 && budget.isOver() {
			return budget.refusal()
		}
		if status := handle.RunPreFilterExtensionRemovePod(ctx, state, pod, gone.info, gone.node); !status.IsSuccess() {
			return preFilterRefusal(pod, status)
		}
	}
	return nil
}

// tryAll tries each pending slot once, and returns the slots that did not pass. It
// does not try a shape again on a node that was rejected for it, unless the order
// matters and another slot has passed since.
func (st *simulation) tryAll(ctx context.Context, targets []interpod.Target, pending []int, v *verification) (left []int) {
	refused := map[interpod.Target]*fwk.Status{}
	for _, i := range pending {
		if st.q.constraints.IsStopped() {
			return left
		}
		t := targets[i]
		status := refused[t]
		if status == nil {
			if status = st.try(ctx, t); status.IsSuccess() {
				v.order = append(v.order, i)
				// A rejected slot may pass now.
				if st.q.constraints.InOrder() {
					clear(refused)
				}
				continue
			}
			refused[t] = status
			v.rejections = append(v.rejections, rejection{shape: t.Shape, pod: st.nextPodName(t.Shape), node: t.Node, status: status})
		}
		left = append(left, i)
	}
	return left
}

// nextPodName returns the name of the pod of a shape that is placed next.
func (st *simulation) nextPodName(shape int) string {
	pods := st.q.shapes[shape].Pods
	return pods[min(st.taken[shape], len(pods)-1)].Name
}

// try places the next pod of a shape on a node if the filters accept it. Otherwise it
// returns the status of the filter that rejected it.
func (st *simulation) try(ctx context.Context, t interpod.Target) *fwk.Status {
	if st.filterRuns++; st.filterRuns > maxFilterRuns {
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("no order of the pods was found in %d runs of the filters", maxFilterRuns))
	}
	clone := st.clones[t.Node]
	if clone == nil {
		info := st.infos[t.Node]
		if info == nil {
			return fwk.NewStatus(fwk.Unschedulable, "the scheduler does not know the node yet")
		}
		clone = info.Snapshot()
		st.clones[t.Node] = clone
	}
	shape := st.q.shapes[t.Shape]
	if only := st.preFilterNodes[t.Shape]; only != nil && !only.Has(t.Node) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, st.leftOut[t.Shape])
	}
	pod := shape.Pods[min(st.taken[t.Shape], len(shape.Pods)-1)]
	if status := st.p.Handle.RunFilterPlugins(ctx, st.states[t.Shape], pod, clone); !status.IsSuccess() {
		return status
	}
	if status := st.checkAntiAffinity(t.Shape, clone); status != nil {
		return status
	}
	for _, sk := range st.skews {
		if !sk.Allows(t) {
			return fwk.NewStatus(fwk.Unschedulable, podtopologyspread.ErrReasonConstraintsNotMatch).WithPlugin(names.PodTopologySpread)
		}
	}
	info, err := schedulerframework.NewPodInfo(pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	clone.AddPodInfo(info)
	for i, state := range st.states {
		if status := st.p.Handle.RunPreFilterExtensionAddPod(ctx, state, st.q.shapes[i].Pods[0], info, clone); !status.IsSuccess() {
			return status
		}
	}
	for _, sk := range st.skews {
		sk.Add(t)
	}
	st.placed = append(st.placed, placedPod{shape: t.Shape, info: info, node: clone})
	st.taken[t.Shape]++
	return nil
}

// checkAntiAffinity rejects a shape on a node if the anti-affinity of an earlier
// member keeps it away. InterPodAffinity does not check this if it was skipped,
// because no term was there before any member was placed.
func (st *simulation) checkAntiAffinity(shape int, node fwk.NodeInfo) *fwk.Status {
	if !st.states[shape].GetSkipFilterPlugins().Has(names.InterPodAffinity) {
		return nil
	}
	for _, p := range st.placed {
		for _, term := range p.info.GetRequiredAntiAffinityTerms() {
			there, ok := p.node.Node().Labels[term.TopologyKey]
			here, also := node.Node().Labels[term.TopologyKey]
			if ok && also && here == there && st.q.constraints.Selects(&term, shape) {
				return fwk.NewStatus(fwk.Unschedulable, "node(s) didn't satisfy the anti-affinity rules of pod "+p.info.GetPod().Name).WithPlugin(names.InterPodAffinity)
			}
		}
	}
	return nil
}

// isEnough reports whether as many slots of each shape passed as it has required pods.
func (v verification) isEnough(shapes []*interpod.Shape, targets []interpod.Target) bool {
	passed := make([]int64, len(shapes))
	for _, i := range v.order {
		passed[targets[i].Shape]++
	}
	for i, shape := range shapes {
		if passed[i] < shape.Required {
			return false
		}
	}
	return true
}
