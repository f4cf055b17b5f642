package gang

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

// A pod may have come to its node just before its assignment is revoked. A pod that has ended
// must not be read again, because it would hold its room once more.
func TestARevokedAssignmentIsReadAgain(t *testing.T) {
	const deadline = time.Minute
	for name, tc := range map[string]struct {
		end  func(g *Groups, pod *corev1.Pod) Output
		want bool
	}{
		"not bound in time":           {func(g *Groups, _ *corev1.Pod) Output { return g.RevokeExpired(noon.Add(deadline)) }, true},
		"deleted before it was bound": {func(g *Groups, pod *corev1.Pod) Output { return g.DropPod(pod.UID) }, true},
		"ended on its node": {func(g *Groups, pod *corev1.Pod) Output {
			ended := pod.DeepCopy()
			ended.Spec.NodeName, ended.Status.Phase = "n", corev1.PodSucceeded
			return g.PutPod(ended, noon)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, pod := New(seenOwners{}, match.PolicyLonode), objects.Pod("p")
			g.PutPod(pod, noon)
			plan, _ := g.Plan(pod.UID, noon)
			if _, _, _, err := g.Assign(plan, []match.Slot{{Key: string(pod.UID), Node: "n"}}, noon.Add(deadline)); err != nil {
				t.Fatal(err)
			}
			out := tc.end(g, pod)
			if len(out.Release) != 1 || slices.Contains(out.Recheck, pod.UID) != tc.want {
				t.Errorf("released %v, read again %v; want one release, and the pod read again: %t", out.Release, out.Recheck, tc.want)
			}
		})
	}
}
