package fluence

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
)

// shunning keeps pods of an app from a pod, in all of its domain.
func shunning(key, app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{termOn(key, app)},
		}}
	}
}

// Nodes from which a pod that does not end keeps a group, by other things than amounts, are
// reserved for nobody; those from which one keeps it that ends are.
func TestWhatBarsAGroupForGoodReservesNothing(t *testing.T) {
	cases := map[string]struct {
		bars, asks func(*corev1.Pod)
		ends       func(*corev1.Pod)
		reserved   int
		told       string
	}{
		"anti-affinity of a pod that does not end, everywhere": {
			bars: shunning(corev1.LabelOSStable, "m"), asks: awayFrom("m"), ends: always,
			told: "; no nodes are reserved for it: beside pods that do not end the filters rule out 3 nodes (3 node(s) didn't satisfy existing pods anti-affinity rules)",
		},
		"anti-affinity of a pod that ends, everywhere": {
			bars: shunning(corev1.LabelOSStable, "m"), asks: awayFrom("m"), ends: never,
			reserved: 3, told: "; 3 nodes are reserved for it",
		},
		"a port of a pod that does not end, on one": {
			bars: hostPort(80), asks: hostPort(80), ends: always,
			told: "; no nodes are reserved for it: beside pods that do not end the filters rule out 1 node (1 node(s) didn't have free ports for the requested pod ports)",
		},
		"a port of a pod that ends, on one": {
			bars: hostPort(80), asks: hostPort(80), ends: never,
			reserved: 3, told: "; 3 nodes are reserved for it",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, realEngine(t), func(r *rig) {
				const n = 3
				for i := range n {
					r.node(fmt.Sprintf("n%d", i), 8, func(n *corev1.Node) { n.Labels[corev1.LabelOSStable] = "linux" })
				}
				r.pass(settleTime)
				r.schedule()
				r.pod("bar", cpu("1m"), tc.bars, tc.ends, onNode("n0"))
				r.pass(time.Second)
				r.gang(n, n, cpu("1m"), ofApp("m"), tc.asks)
				r.pass(11 * time.Minute)
				if got := len(r.pl.reservations.nodes(group.Turn{Namespace: ns}, g)); got != tc.reserved {
					t.Errorf("%d nodes are reserved, want %d", got, tc.reserved)
				}
				if got := r.message(); !strings.HasSuffix(got, tc.told) {
					t.Errorf("it is told %q, want %q at its end", got, tc.told)
				}
				r.pod("other", cpu("4"), elsewhere)
				r.pass(time.Second)
				if r.runs("other") != (tc.reserved == 0) {
					t.Errorf("a pod of another namespace runs: %t", r.runs("other"))
				}
				r.remove("bar")
				r.pass(10 * time.Second)
				if !r.runs("g-0") {
					t.Errorf("it does not start without what bars it: %s", r.message())
				}
			})
		})
	}
}

// slowEnds is a plugin that takes long to read a pod that is taken away.
type slowEnds struct{ takes time.Duration }

func (slowEnds) Name() string { return "SlowEnds" }

func (slowEnds) PreFilter(context.Context, fwk.CycleState, *corev1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

func (p slowEnds) PreFilterExtensions() fwk.PreFilterExtensions { return p }

func (slowEnds) AddPod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

func (p slowEnds) RemovePod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	time.Sleep(p.takes) // in the time of the bubble
	return nil
}

// When nodes are looked for without the pods that end, the filters read the terms of these again.
// That is the group's as far as these are of its namespace, or its own terms are read.
func TestWhatAPodThatEndsHasReadIsItsNamespaces(t *testing.T) {
	const takes = 12 * time.Millisecond
	for name, tc := range map[string]struct {
		ends, asks func(*corev1.Pod)
		of         func(*corev1.Pod)
		want       time.Duration
	}{
		"one of others": {shunningIn(1, 0, ns), func(*corev1.Pod) {}, elsewhere, 0},
		"one of others, and terms of the group's": {shunningIn(1, 0, ns), shunningIn(2, 0), elsewhere, takes * 2 / 3},
		"one of others that has no terms":         {func(*corev1.Pod) {}, func(*corev1.Pod) {}, elsewhere, takes},
		"one of its namespace":                    {shunningIn(1, 0), func(*corev1.Pod) {}, func(*corev1.Pod) {}, takes},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.node("n1", 8)
				r.pod("ends", tc.of, tc.ends, never, onNode("n1"))
				r.pass(settleTime)
				r.must(r.sched.Cache.UpdateSnapshot(klog.FromContext(r.ctx), r.snapshot))
				nodes, err := r.snapshot.NodeInfos().List()
				r.must(err)
				asks, state := aPod("asks", tc.asks), schedulerframework.NewCycleState()
				state.Write(probeKey, probe{})
				r.pl.filters.RunPreFilterPlugins(r.ctx, state, asks)
				q := &enquiry{nodes: nodes, outlasted: func(*corev1.Pod) bool { return false }}
				q.may = &allowance{ctx: r.ctx, now: time.Now, began: time.Now(), most: time.Minute}
				if !r.pl.withoutEnding(r.ctx, q, state, asks) {
					t.Fatal("it does not get through")
				}
				if took := q.may.took(); (took - tc.want).Abs() > time.Microsecond {
					t.Errorf("the group pays for %s, want %s", took, tc.want)
				}
			}, slowEnds{takes})
		})
	}
}
