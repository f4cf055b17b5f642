package placement

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/preemption"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// verifyChoice runs the filters for slots without the chosen victims. If the filters reject slots, and with
// allAway, it adds victims that keep the filters from the nodes. It returns the slots and all victims of a plan that
// passes, or the rejections. known is false if the budget is used up, or if a plugin fails.
func (s *preemptionSearch) verifyChoice(ctx context.Context, q *attempt, requests []translate.ShapeRequest, slots []match.Slot, chosen []int, allAway bool) (_ []match.Slot, _ []int, _ []rejection, known bool) {
	rejections, known := s.verify(ctx, q, slots, chosen)
	if !known || len(rejections) == 0 || !allAway {
		return slots, chosen, rejections, known
	}
	more, known := s.findInTheWay(ctx, q, slots, chosen, rejections)
	if !known || len(more) == 0 {
		return slots, chosen, rejections, known
	}
	all := sorted(slices.Concat(chosen, more))
	if len(chosen) == 0 {
		return slots, all, nil, true
	}
	// The room of these victims may be enough, so that others can stay.
	ending := slices.Clone(s.r.Ending)
	for _, i := range more {
		ending = append(ending, s.units[i].Slots...)
	}
	units := s.units
	s.units = slices.Clone(units)
	for _, i := range more {
		s.units[i].Slots = nil
	}
	other, fewer, err := s.match(ctx, q, requests, ending)
	s.units = units
	if err != nil || len(fewer) >= len(chosen) {
		return slots, all, nil, true
	}
	fewer = sorted(slices.Concat(fewer, more))
	for _, i := range more {
		if left, known := s.verify(ctx, q, other, without(fewer, i)); !known || len(left) == 0 {
			return slots, all, nil, true // it is not needed there
		}
	}
	if left, known := s.verify(ctx, q, other, fewer); known && len(left) == 0 {
		return other, fewer, nil, true
	}
	return slots, all, nil, true
}

func sorted(s []int) []int {
	slices.Sort(s)
	return s
}

func without(s []int, leftOut int) []int {
	return slices.DeleteFunc(slices.Clone(s), func(i int) bool { return i == leftOut })
}

// verify runs the filters for slots in a cluster without some victims, and without the pods that are ending.
func (s *preemptionSearch) verify(ctx context.Context, q *attempt, slots []match.Slot, chosen []int) (rejections []rejection, known bool) {
	targets, err := targetsOf(slots, len(q.shapes))
	if err != nil {
		return nil, false
	}
	at := *q
	var away []awayPod
	if at.nodes, away, known = s.nodesWithout(ctx, chosen); !known {
		return nil, false
	}
	if at.constraints, err = s.constraintsOn(at.nodes); err != nil {
		return nil, false
	}
	v, refused := s.Placer.verify(ctx, &at, targets, away)
	switch {
	case refused != nil:
		return nil, false
	case v.isEnough(q.shapes, targets):
		return nil, true
	case len(v.rejections) == 0:
		return nil, false
	}
	return v.rejections, true
}

// nodesWithout returns the nodes without some victims and without the pods that are ending, and these pods.
func (s *preemptionSearch) nodesWithout(ctx context.Context, chosen []int) (nodes []fwk.NodeInfo, away []awayPod, known bool) {
	gone := maps.Clone(s.ending)
	for _, i := range chosen {
		for _, pod := range s.victims[i].Pods {
			gone.Insert(pod.UID)
		}
	}
	nodes = slices.Clone(s.q.nodes)
	logger := klog.FromContext(ctx)
	for i, info := range nodes {
		if i%checkBudgetEveryNodes == 0 && s.q.budget.isOver() {
			return nil, nil, false
		}
		var clone fwk.NodeInfo
		for _, there := range info.GetPods() {
			if !gone.Has(there.GetPod().UID) {
				continue
			}
			if clone == nil {
				clone = info.Snapshot()
			}
			if clone.RemovePod(logger, there.GetPod()) != nil {
				return nil, nil, false
			}
			away = append(away, awayPod{there, clone})
		}
		if clone != nil {
			nodes[i] = clone
		}
	}
	return nodes, away, true
}

// maxInTheWay is how many victims are considered that may keep the filters from a node elsewhere.
const maxInTheWay = 1 << 11

// findInTheWay returns victims without which the filters accept the slots, so that none of them can stay. The least
// important ones go first. It returns none if the filters reject the slots even without all candidates.
func (s *preemptionSearch) findInTheWay(ctx context.Context, q *attempt, slots []match.Slot, chosen []int, rejections []rejection) (more []int, known bool) {
	rejecting, known := sets.New[string](), true
	for _, o := range rejections {
		rejecting.Insert(o.node)
	}
	var here, all []int
	for i, v := range s.victims {
		if slices.Contains(chosen, i) {
			continue
		}
		all = append(all, i)
		if slices.ContainsFunc(v.Pods, func(p preemption.VictimPod) bool { return rejecting.Has(p.Node) }) {
			here = append(here, i)
		}
	}
	passes := func(more []int) bool {
		left, ok := s.verify(ctx, q, slots, slices.Concat(chosen, more))
		known = known && ok
		return ok && len(left) == 0
	}
	among := here
	if !passes(here) {
		// What keeps the pods from the node is elsewhere, for example in the same zone.
		if among = all; !known || len(all) > maxInTheWay || !passes(all) {
			return nil, known
		}
	}
	if more = minimal(nil, among, false, passes); !known || !passes(more) {
		return nil, known
	}
	return more, true
}

// minimal returns a part of list of which nothing can be left out: with base it is enough, and with base and less of it
// it is not. Elements at the front are taken rather than those behind them. list has to be enough with base. The
// algorithm is QuickXplain (U. Junker, AAAI 2004). changed is true if base differs from that of the caller's caller.
func minimal(base, list []int, changed bool, isEnough func([]int) bool) []int {
	if len(list) == 0 || changed && isEnough(base) {
		return nil
	}
	if len(list) == 1 {
		return list
	}
	front, back := list[:len(list)/2], list[len(list)/2:]
	second := minimal(slices.Concat(base, front), back, true, isEnough)
	first := minimal(slices.Concat(base, second), front, len(second) > 0, isEnough)
	return slices.Concat(first, second)
}

// withAllAway returns the attempt as it is when all candidates and all pods that are ending have gone: the filters
// run again on the nodes that they ruled out for the present. known is false if the budget is used up, or if a plugin
// fails.
func (s *preemptionSearch) withAllAway(ctx context.Context) (later *attempt, known bool) {
	all := make([]int, len(s.victims))
	for i := range all {
		all[i] = i
	}
	nodes, away, known := s.nodesWithout(ctx, all)
	if !known {
		return nil, false
	}
	l := *s.q
	l.nodes, l.requests, l.keys, l.verdicts = nodes, nil, nil, verdicts{stay: s.q.stay}
	var err error
	if s.q.constraints != nil {
		if l.constraints, err = s.constraintsOn(nodes); err != nil {
			return nil, false
		}
	}
	for i, shape := range l.shapes {
		out, known := s.filterAgain(ctx, &l, i, s.q.filtered[i], away)
		if !known {
			return nil, false
		}
		l.filtered = append(l.filtered, slices.Clone(out.unschedulable))
		out.unresolvable = s.q.unresolvable[i]
		out.rejectedByExtenders = s.q.rejectedByExtenders[i]
		out.unschedulable = slices.Concat(out.unschedulable, out.rejectedByExtenders)
		l.add(out, shape)
	}
	l.stayWithSiblings(s.Levels)
	l.limitPerNode()
	l.excludeNodes(l.cluster.Reserved.Nodes)
	return &l, true
}

// filterAgain runs the filters for a shape on some of the nodes of an attempt, from which pods are away.
func (s *preemptionSearch) filterAgain(ctx context.Context, q *attempt, shape int, barred []string, away []awayPod) (out filterResult, known bool) {
	out = filterResult{nodesByMessage: map[string]int{}, filters: sets.New[string]()}
	if len(barred) == 0 {
		return out, true
	}
	pod := q.shapes[shape].Pods[0]
	if q.constraints != nil {
		pod = q.constraints.Relaxed[shape]
	}
	state := schedulerframework.NewCycleState()
	state.Write(probeKey, probe{})
	result, status, _ := s.preFilter(ctx, q.budget, state, pod)
	if !status.IsSuccess() {
		return out, false
	}
	if removePods(ctx, s.Handle, q.budget, state, pod, away) != nil {
		return out, false
	}
	state.SetSkipFilterPlugins(state.GetSkipFilterPlugins().Union(skippedFilters))
	again := sets.New(barred...)
	for _, info := range q.nodes {
		name := info.Node().Name
		if !again.Has(name) {
			continue
		}
		if q.budget.isOver() {
			return out, false
		}
		if result.AllNodes() || result.NodeNames.Has(name) {
			if status = s.Handle.RunFilterPlugins(ctx, state, pod, info); status.IsSuccess() {
				continue
			}
			out.nodesByMessage[status.Message()]++
			out.filters.Insert(status.Plugin())
		}
		out.unschedulable = append(out.unschedulable, name)
	}
	slices.Sort(out.unschedulable)
	return out, true
}
