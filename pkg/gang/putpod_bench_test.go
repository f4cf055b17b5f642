package gang

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// BenchmarkPutPod measures a change of one pod of a large
// group. The lock is held, and each bind causes such a change.
func BenchmarkPutPod(b *testing.B) {
	for _, size := range []int{8, 500, 5_000} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			g := New(seenOwners{}, match.PolicyLonode)
			g.PutPodGroup(types.NamespacedName{Namespace: "ns", Name: "g"}, PodGroup{UID: "g", MinMember: int32(size)})
			pods := make([]*corev1.Pod, size)
			for i := range pods {
				pods[i] = benchPod("g", i)
				g.PutPod(pods[i], noon)
			}
			for i := 0; b.Loop(); i++ {
				g.PutPod(pods[i%size], noon)
			}
		})
	}
}
