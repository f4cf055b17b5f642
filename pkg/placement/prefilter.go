package placement

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// preFilter runs the PreFilter plugins for a pod of a group. They compare the pod
// with the terms of all existing pods. The time for pods of other namespaces is not
// taken from the group's budget, and its namespace does not owe it.
func (p *Placer) preFilter(ctx context.Context, budget *Budget, state fwk.CycleState, pod *corev1.Pod) (result *fwk.PreFilterResult, status *fwk.Status, plugins sets.Set[string]) {
	began := p.Now()
	result, status, plugins = p.PreFilters.RunPreFilterPlugins(ctx, state, pod)
	took := p.Now().Sub(began)
	budget.preFilterTime, budget.preFilterRuns = budget.preFilterTime+took, budget.preFilterRuns+1
	switch {
	case budget.measured:
		budget.addForeign(min(took, budget.foreignPerRun))
	case budget.preFilterTime >= slowPreFilter:
		p.measureForeignTime(ctx, budget, pod)
		budget.addForeign(min(budget.preFilterTime, time.Duration(budget.preFilterRuns)*budget.foreignPerRun))
	}
	return result, status, plugins
}

// whyLeftOut returns, in kube-scheduler's words, why PreFilter plugins left nodes out.
func whyLeftOut(plugins sets.Set[string]) string {
	return fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(plugins))
}

// foreignCosts holds, by namespace, how long a run of the PreFilter plugins takes for pods of other
// namespaces. Only scheduling cycles use it, one after the other. The zero value is ready for use.
type foreignCosts struct {
	byNamespace map[string]foreignTime
	// next is when a measurement may be repeated, for any namespace.
	next time.Time
}

// foreignTime is one measurement.
type foreignTime struct {
	took time.Duration
	at   time.Time
}

// maxMeasurementAge is the age at which a measurement is dropped, when another one is made.
const maxMeasurementAge = time.Minute

// measureFactor bounds repeated measurements: they take at most 1/measureFactor of the time.
const measureFactor = 20

// ForeignTime estimates how much of a run of the PreFilter plugins for a pod was
// spent on pods of other namespaces. took is how long the run took. It returns 0 for
// a short run. Repeated measurements take at most a twentieth of the time, for all
// namespaces together. Until the next one, ForeignTime returns the last measurement.
func (p *Placer) ForeignTime(ctx context.Context, pod *corev1.Pod, took time.Duration) time.Duration {
	if took < slowPreFilter {
		return 0
	}
	began := p.Now()
	if last, ok := p.foreignCosts.byNamespace[pod.Namespace]; ok && began.Before(p.foreignCosts.next) {
		return last.took
	}
	maps.DeleteFunc(p.foreignCosts.byNamespace, func(_ string, old foreignTime) bool { return began.Sub(old.at) > maxMeasurementAge })
	if p.foreignCosts.byNamespace == nil {
		p.foreignCosts.byNamespace = map[string]foreignTime{}
	}
	measured := foreignTime{took: p.foreignRunTime(ctx, pod, p.foreignShare(pod.Namespace)), at: began}
	ended := p.Now()
	p.foreignCosts.byNamespace[pod.Namespace], p.foreignCosts.next = measured, ended.Add(measureFactor*ended.Sub(began))
	return measured.took
}

// measureForeignTime finds out how long one run of the PreFilter plugins takes for pods of other
// namespaces. It runs them on a copy of the pod without constraints, so that only the
// terms of existing pods take time. The share of other namespaces in this run is not
// charged to the group, and neither is the same share of the time that foreignShare takes.
func (p *Placer) measureForeignTime(ctx context.Context, budget *Budget, pod *corev1.Pod) {
	began := p.Now()
	share := p.foreignShare(pod.Namespace)
	again := p.Now()
	budget.foreignPerRun, budget.measured = p.foreignRunTime(ctx, pod, share), true
	budget.addForeign(budget.foreignPerRun)
	budget.uncounted += scaleDuration(again.Sub(began), share)
}

// foreignRunTime runs the PreFilter plugins on a copy of a pod without constraints,
// and returns the given share of the time that they took.
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
	return scaleDuration(p.Now().Sub(began), share)
}

// foreignShare returns the share of other namespaces in the cost to evaluate the required
// anti-affinity of existing pods for a pod of a namespace. It returns 0 if no existing pod has any.
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

func scaleDuration(of time.Duration, share float64) time.Duration {
	return time.Duration(float64(of) * share)
}
