package placement

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/test/objects"
)

// slowRemovePod is a plugin that takes long to remove a pod.
type slowRemovePod struct{ takes time.Duration }

func (slowRemovePod) Name() string { return "SlowEnds" }

func (slowRemovePod) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

func (p slowRemovePod) PreFilterExtensions() fwk.PreFilterExtensions { return p }

func (slowRemovePod) AddPod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

func (p slowRemovePod) RemovePod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	time.Sleep(p.takes) // in the time of the bubble
	return nil
}

// Without the pods that will end, the filters read the terms of these pods again. The
// group is charged for the pods of its namespace, and for its own terms.
func TestTermsOfForeignEndingPodsAreNotCharged(t *testing.T) {
	const takes = 12 * time.Millisecond
	for name, tc := range map[string]struct {
		ends, asks func(*corev1.Pod)
		of         func(*corev1.Pod)
		want       time.Duration
	}{
		"one of others": {objects.ShunningIn(1, 0, objects.Namespace), func(*corev1.Pod) {}, objects.Elsewhere, 0},
		"one of others, and terms of the group's": {objects.ShunningIn(1, 0, objects.Namespace), objects.ShunningIn(2, 0), objects.Elsewhere, takes * 2 / 3},
		"one of others that has no terms":         {func(*corev1.Pod) {}, func(*corev1.Pod) {}, objects.Elsewhere, takes},
		"one of its namespace":                    {objects.ShunningIn(1, 0), func(*corev1.Pod) {}, func(*corev1.Pod) {}, takes},
	} {
		t.Run(name, func(t *testing.T) {
			ends := objects.Pod("ends", tc.of, tc.ends, objects.Never, objects.OnNode("n1"))
			inProfile(t, []*corev1.Node{objects.ReadyNode("n1", 8)}, []*corev1.Pod{ends}, func(p *profile) {
				asks, state := objects.Pod("asks", tc.asks), schedulerframework.NewCycleState()
				state.Write(probeKey, probe{})
				p.PreFilters.RunPreFilterPlugins(p.ctx, state, asks)
				q := &attempt{nodes: p.nodes, budget: unlimitedBudget(p.ctx), outlasted: func(*corev1.Pod) bool { return false }}
				if !(reservationSearch{p.Placer, q}).removeEndingPods(p.ctx, state, asks) {
					t.Fatal("it does not get through")
				}
				if took := q.budget.Used(); (took - tc.want).Abs() > time.Microsecond {
					t.Errorf("the group pays for %s, want %s", took, tc.want)
				}
			}, slowRemovePod{takes})
		})
	}
}
