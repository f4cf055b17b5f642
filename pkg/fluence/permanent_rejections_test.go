package fluence

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/test/objects"
)

// shunning returns an edit: anti-affinity of the pod to an app in the whole domain.
func shunning(key, app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{objects.TermOn(key, app)},
		}}
	}
}

// A pod that does not end may keep a group from a node by other things than amounts.
// Such a node is reserved for no group. If the pod ends, the node is reserved.
func TestPermanentlyRejectedNodesAreNotReserved(t *testing.T) {
	cases := map[string]struct {
		bars, asks func(*corev1.Pod)
		ends       func(*corev1.Pod)
		reserved   int
		told       string
	}{
		"anti-affinity of a pod that does not end, everywhere": {
			bars: shunning(corev1.LabelOSStable, "m"), asks: objects.AwayFrom("m"), ends: objects.Always,
			told: "; no nodes are reserved for it: the filters reject 3 nodes even if the pods that end are gone (3 node(s) didn't satisfy existing pods anti-affinity rules)",
		},
		"anti-affinity of a pod that ends, everywhere": {
			bars: shunning(corev1.LabelOSStable, "m"), asks: objects.AwayFrom("m"), ends: objects.Never,
			reserved: 3, told: "; 3 nodes are reserved for it",
		},
		"a port of a pod that does not end, on one": {
			bars: objects.HostPort(80), asks: objects.HostPort(80), ends: objects.Always,
			told: "; no nodes are reserved for it: the filters reject 1 node even if the pods that end are gone (1 node(s) didn't have free ports for the requested pod ports)",
		},
		"a port of a pod that ends, on one": {
			bars: objects.HostPort(80), asks: objects.HostPort(80), ends: objects.Never,
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
				r.pod("bar", objects.CPU("1m"), tc.bars, tc.ends, objects.OnNode("n0"))
				r.pass(time.Second)
				r.gang(n, n, objects.CPU("1m"), objects.OfApp("m"), tc.asks)
				r.pass(11 * time.Minute)
				if got := len(r.pl.reservations.nodes(gang.Turn{Namespace: ns}, g)); got != tc.reserved {
					t.Errorf("%d nodes are reserved, want %d", got, tc.reserved)
				}
				if got := r.message(); !strings.HasSuffix(got, tc.told) {
					t.Errorf("it is told %q, want %q at its end", got, tc.told)
				}
				r.pod("other", objects.CPU("4"), objects.Elsewhere)
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
