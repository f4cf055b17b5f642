package gang

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

// BenchmarkStats counts groups of 20 pods each. The
// lock is held, each time that the metrics are read.
func BenchmarkStats(b *testing.B) {
	for _, groups := range []int{100, 1_000, 5_000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			g := New(seenOwners{}, match.PolicyLonode)
			for i := range groups {
				name := fmt.Sprintf("g-%d", i)
				g.PutPodGroup(types.NamespacedName{Namespace: "ns", Name: name}, PodGroup{UID: types.UID(name), MinMember: 20})
				for j := range 20 {
					p := benchPod(name, j)
					if i%2 == 0 {
						p.Spec.NodeName = "n"
					}
					g.PutPod(p, noon)
				}
			}
			for b.Loop() {
				if c := g.Stats(); c.HeldPods != (groups+1)/2*20 {
					b.Fatalf("%d pods are held", c.HeldPods)
				}
			}
		})
	}
}

// benchPod returns the nth pod of a group.
func benchPod(of string, n int) *corev1.Pod {
	return objects.Pod(fmt.Sprintf("%s-%d", of, n), objects.InGroup(of))
}
