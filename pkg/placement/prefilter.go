package placement

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// preFilter runs the PreFilter plugins for a pod of a group. They compare the pod with the terms of
// all running pods, also of other namespaces. The time for the terms of these is not taken from the
// group's allowance, and its namespace does not pay for it.
func (p *Placer) preFilter(ctx context.Context, budget *Budget, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
	began := p.Now()
	result, status, _ := p.PreFilters.RunPreFilterPlugins(ctx, state, pod)
	took := p.Now().Sub(began)
	budget.ran, budget.runs = budget.ran+took, budget.runs+1
	switch {
	case budget.measured:
		budget.addForeign(min(took, budget.foreign))
	case budget.ran >= slowPreFilter:
		p.measure(ctx, budget, pod)
		budget.addForeign(min(budget.ran, time.Duration(budget.runs)*budget.foreign))
	}
	return result, status
}

// foreignCosts is what a run of the PreFilter plugins took, by namespace, for the sake of pods of others,
// as it was measured last. Scheduling cycles alone use it, one after the other. The zero value is ready
// for use.
type foreignCosts struct {
	byNamespace map[string]foreignTime
	// next is when may be measured next, for whichever namespace.
	next time.Time
}

type foreignTime struct {
	took time.Duration
	at   time.Time
}

// foreignLasts is how long what was measured holds while nothing else may be measured.
const foreignLasts = time.Minute

// measuredOneIn is the part of the time, one in so many, that may be taken to measure again.
const measuredOneIn = 20

// ForeignTime is what a run of the PreFilter plugins that took so long for a pod has taken for the sake
// of pods of other namespaces. To measure that again takes a twentieth of the time at the most, for all
// namespaces together: meanwhile it is what was measured last.
func (p *Placer) ForeignTime(ctx context.Context, pod *corev1.Pod, took time.Duration) time.Duration {
	if took < slowPreFilter {
		return 0
	}
	began := p.Now()
	if last, ok := p.foreignCosts.byNamespace[pod.Namespace]; ok && began.Before(p.foreignCosts.next) {
		return last.took
	}
	maps.DeleteFunc(p.foreignCosts.byNamespace, func(_ string, old foreignTime) bool { return began.Sub(old.at) > foreignLasts })
	if p.foreignCosts.byNamespace == nil {
		p.foreignCosts.byNamespace = map[string]foreignTime{}
	}
	is := foreignTime{took: p.foreignRunTime(ctx, pod, p.foreignShare(pod.Namespace)), at: began}
	ended := p.Now()
	p.foreignCosts.byNamespace[pod.Namespace], p.foreignCosts.next = is, ended.Add(measuredOneIn*ended.Sub(began))
	return is.took
}

// measure finds out what one run of the PreFilter plugins takes for the sake of others: a pod that
// asks for nothing itself takes what the terms of all pods take, and of that others have their share.
func (p *Placer) measure(ctx context.Context, budget *Budget, pod *corev1.Pod) {
	began := p.Now()
	share := p.foreignShare(pod.Namespace)
	again := p.Now()
	budget.foreign, budget.measured = p.foreignRunTime(ctx, pod, share), true
	budget.addForeign(budget.foreign)
	budget.waited += part(again.Sub(began), share)
}

// foreignRunTime is what one run of the PreFilter plugins takes for the sake of others, whose share it is of
// what they take for all.
func (p *Placer) foreignRunTime(ctx context.Context, pod *corev1.Pod, share float64) time.Duration {
	if share == 0 {
		return 0
	}
	bare := pod.DeepCopy()
	bare.Spec.Affinity, bare.Spec.TopologySpreadConstraints = nil, nil
	bare.Spec.Volumes, bare.Spec.ResourceClaims = nil, nil
	state := schedulerframework.NewCycleState()
	state.Write(probeKey, probe{})
	began := p.Now()
	p.PreFilters.RunPreFilterPlugins(ctx, state, bare)
	return part(p.Now().Sub(began), share)
}

// foreignShare is the share of other namespaces in what there is to read in the required
// anti-affinity of pods that are there, for a pod of a namespace. It is 0 where there is none.
func (p *Placer) foreignShare(namespace string) float64 {
	nodes, err := p.Handle.SnapshotSharedLister().NodeInfos().HavePodsWithRequiredAntiAffinityList()
	if err != nil {
		return 0
	}
	var others, all int
	for _, n := range nodes {
		for _, there := range n.GetPodsWithRequiredAntiAffinity() {
			read := p.antiAffinity.EvaluationCost(there, namespace)
			if all += read; there.GetPod().Namespace != namespace {
				others += read
			}
		}
	}
	return float64(others) / float64(max(all, 1))
}

func part(of time.Duration, share float64) time.Duration {
	return time.Duration(float64(of) * share)
}
