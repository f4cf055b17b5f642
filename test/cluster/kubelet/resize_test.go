package kubelet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/test/objects"
)

// having returns a running pod whose status has its container's resources.
func having(p *corev1.Pod, pending string, pairs ...string) *corev1.Pod {
	return with(p, func(p *corev1.Pod) {
		has := corev1.ResourceRequirements{Requests: objects.Amounts(pairs...)}
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, Resources: &has, AllocatedResources: has.Requests}}
		if pending != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: pending}}
		}
	})
}

func requests(pairs ...string) []corev1.ResourceRequirements {
	return []corev1.ResourceRequirements{{Requests: objects.Amounts(pairs...)}}
}

func TestResize(t *testing.T) {
	two := pod("p", "cpu", "2")
	cases := map[string]struct {
		pod  *corev1.Pod
		want *resize
	}{
		"nothing is said of a pod whose status says nothing": {pod: pod("p", "cpu", "5")},
		"more that fits is given":                            {pod: having(pod("p", "cpu", "5"), "", "cpu", "2"), want: &resize{containers: requests("cpu", "5")}},
		"less is given":                                      {pod: having(pod("p", "cpu", "1"), "", "cpu", "2"), want: &resize{containers: requests("cpu", "1")}},
		"more than others leave is deferred": {
			pod:  having(pod("p", "cpu", "6"), "", "cpu", "2"),
			want: &resize{containers: requests("cpu", "2"), pending: corev1.PodReasonDeferred},
		},
		"more than the node has is infeasible": {
			pod:  having(pod("p", "cpu", "9"), "", "cpu", "2"),
			want: &resize{containers: requests("cpu", "2"), pending: corev1.PodReasonInfeasible},
		},
		"what the status says counts, not the start": {
			pod:  having(pod("p", "cpu", "2"), "", "cpu", "4"),
			want: &resize{containers: requests("cpu", "2")},
		},
		"a status that is right stays":      {pod: having(pod("p", "cpu", "4"), "", "cpu", "4")},
		"what is deferred already stays so": {pod: having(pod("p", "cpu", "6"), corev1.PodReasonDeferred, "cpu", "2")},
		"what was deferred and fits is given": {
			pod:  having(pod("p", "cpu", "5"), corev1.PodReasonDeferred, "cpu", "2"),
			want: &resize{containers: requests("cpu", "5")},
		},
		"what was infeasible and is taken back pends no more": {
			pod:  having(pod("p", "cpu", "2"), corev1.PodReasonInfeasible, "cpu", "2"),
			want: &resize{containers: requests("cpu", "2")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			l.putNode(node("cpu", "8", "pods", "10"))
			l.putPod(pod("other", "cpu", "3"))
			l.putPod(two)
			l.putPod(tc.pod)
			got := l.resizeOf(tc.pod)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(resize{})); diff != "" {
				t.Errorf("resize (-want +got):\n%s", diff)
			}
		})
	}
}
