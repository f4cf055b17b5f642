package gang

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/match"
)

// BenchmarkPutPod measures one event of a pod, of a group that waits or that has started, while
// many pods of other groups wait. The lock is held, and each bind causes such events.
func BenchmarkPutPod(b *testing.B) {
	for _, waiting := range []int{4_000, 50_000} {
		g := New(seenOwners{}, match.PolicyLonode)
		for i := range waiting / 8 {
			benchGroup(g, fmt.Sprintf("other-%d", i), 8, "")
		}
		for _, size := range []int{8, 512, 4_096} {
			for state, node := range map[string]string{"waits": "", "started": "n"} {
				pods := benchGroup(g, fmt.Sprintf("%s-%d", state, size), size, node)
				b.Run(fmt.Sprintf("waiting=%d/size=%d/%s", waiting, size, state), func(b *testing.B) {
					for i := 0; b.Loop(); i++ {
						g.PutPod(pods[i%size], noon)
					}
				})
			}
		}
	}
}

// benchGroup puts a group of a size, whose pods wait or are on a node.
func benchGroup(g *Groups, name string, size int, node string) []*corev1.Pod {
	g.PutPodGroup(types.NamespacedName{Namespace: "ns", Name: name}, PodGroup{UID: types.UID(name), MinMember: int32(size)})
	pods := make([]*corev1.Pod, size)
	for i := range pods {
		pods[i] = benchPod(name, i)
		pods[i].Spec.NodeName = node
		if node != "" {
			pods[i].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
		}
		g.PutPod(pods[i], noon)
	}
	return pods
}
