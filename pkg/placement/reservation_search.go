package placement

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/placement/interpod"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// permanentRejections are the nodes that the filters still reject without the pods that will end.
type permanentRejections struct {
	// nodes names these nodes, by shape.
	nodes [][]string
	// why counts them by the filters' messages.
	why filterResult
}

// makesRoom reports whether a pod will end and make
// room: it ends by itself, and does not run on every node.
func (q *attempt) makesRoom(p *corev1.Pod) bool {
	return !translate.OnEveryNode(p) && !q.countsAsEndless(p)
}

// checkBudgetEveryPods is after how many removed pods the budget is checked.
const checkBudgetEveryPods = 256

// A reservationSearch is a search for nodes to reserve for the group of an attempt.
type reservationSearch struct {
	*Placer
	q *attempt
}

// findPermanent runs the profile's filters once more on the nodes that they rule out for
// the present, without the pods there that will end. A node that an extender rules out
// stays ruled out, because the extender's reason is not known. known is false if the budget
// is used up, or if a plugin fails. It may only be called inside a scheduling cycle.
func (k reservationSearch) findPermanent(ctx context.Context) (l permanentRejections, known bool) {
	l.nodes = make([][]string, len(k.q.shapes))
	for i := range k.q.shapes {
		out, known := k.findPermanentOf(ctx, i)
		if !known {
			return permanentRejections{}, false
		}
		l.nodes[i] = slices.Concat(out.unschedulable, k.q.rejectedByExtenders[i])
		l.why.add(out)
	}
	return l, true
}

// findPermanentOf is findPermanent for one shape. The nodes that stay rejected are in out.now.
func (k reservationSearch) findPermanentOf(ctx context.Context, shape int) (out filterResult, known bool) {
	out = filterResult{nodesByMessage: map[string]int{}, filters: sets.New[string]()}
	barred := sets.New(k.q.filtered[shape]...)
	if len(barred) == 0 {
		return out, true
	}
	pod := k.q.shapes[shape].Pods[0]
	if k.q.constraints != nil {
		pod = k.q.constraints.Relaxed[shape]
	}
	state := schedulerframework.NewCycleState()
	state.Write(probeKey, probe{})
	result, status, _ := k.preFilter(ctx, k.q.budget, state, pod)
	if !status.IsSuccess() {
		return out, false
	}
	if !k.removeEndingPods(ctx, state, pod) {
		return out, false
	}
	state.SetSkipFilterPlugins(state.GetSkipFilterPlugins().Union(skippedFilters))
	logger := klog.FromContext(ctx)
	for _, info := range k.q.nodes {
		name := info.Node().Name
		if !barred.Has(name) {
			continue
		}
		if k.q.budget.isOver() {
			return out, false
		}
		if !result.AllNodes() && !result.NodeNames.Has(name) {
			out.unschedulable = append(out.unschedulable, name)
			continue
		}
		later := info.Snapshot()
		for _, there := range info.GetPods() {
			if k.q.makesRoom(there.GetPod()) && later.RemovePod(logger, there.GetPod()) != nil {
				return out, false
			}
		}
		if status := k.Handle.RunFilterPlugins(ctx, state, pod, later); !status.IsSuccess() {
			out.unschedulable = append(out.unschedulable, name)
			out.nodesByMessage[status.Message()]++
			out.filters.Insert(status.Plugin())
		}
	}
	return out, true
}

// removeEndingPods removes the pods that will end from the state of the PreFilter
// plugins for a pod. It returns false if the budget is used up, or if a plugin fails.
// The plugins read the terms of each removed pod again. The group's budget is not
// charged with the time for the terms of other namespaces.
func (k reservationSearch) removeEndingPods(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) bool {
	n, own := 0, interpod.OwnEvaluationCost(pod)
	for _, info := range k.q.nodes {
		for _, there := range info.GetPods() {
			if !k.q.makesRoom(there.GetPod()) {
				continue
			}
			if n++; n%checkBudgetEveryPods == 0 && k.q.budget.isOver() {
				return false
			}
			theirs := 0
			if there.GetPod().Namespace != pod.Namespace && len(there.GetRequiredAntiAffinityTerms()) > 0 {
				theirs = k.antiAffinity.EvaluationCost(there, pod.Namespace)
			}
			began := k.Now()
			if !k.Handle.RunPreFilterExtensionRemovePod(ctx, state, pod, there, info).IsSuccess() {
				return false
			}
			if theirs > 0 {
				k.q.budget.addForeign(scaleDuration(k.Now().Sub(began), float64(theirs)/float64(theirs+own)))
			}
		}
	}
	return true
}

// requestsAfterPodsEnd returns the requests of an attempt for the time when all pods that will end have ended.
func (q *attempt) requestsAfterPodsEnd(l permanentRejections) []translate.ShapeRequest {
	later := *q
	later.requests = slices.Clone(q.requests)
	for i := range later.requests {
		a := &later.requests[i].Attributes
		if a.ConstraintsNow = nil; len(l.nodes[i]) > 0 {
			a.ConstraintsNow = notOn(l.nodes[i])
		}
	}
	if q.firstTried == nil {
		return later.requests
	}
	return later.requestsFor(*q.firstTried, q.firstLimits)
}
