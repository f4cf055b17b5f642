package cluster_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/objects"
)

// Native gang scheduling needs a gate in three components, and an API version.
func TestGates(t *testing.T) {
	c := start(t, cluster.Config{
		FeatureGates:   map[string]bool{"GenericWorkload": true},
		RuntimeConfig:  map[string]bool{"scheduling.k8s.io/v1beta1": true},
		StockScheduler: true,
		Nodes:          cluster.Nodes{Count: 1, Allocatable: objects.Amounts("cpu", "2")},
	})
	if got, want := c.FeatureGatesFlag(), "--feature-gates=GenericWorkload=true"; got != want {
		t.Errorf("FeatureGatesFlag() = %q, want %q", got, want)
	}
	ctx := within(t, time.Minute)
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: "gang"},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2},
		}},
	}
	if _, err := c.Client().SchedulingV1beta1().PodGroups(corev1.NamespaceDefault).Create(ctx, group, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	spec := podSpec("cpu", "1")
	name := "gang"
	spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
	for _, pod := range []string{"a", "b"} {
		create(ctx, t, c, pod, spec, nil)
	}
	for _, pod := range []string{"a", "b"} {
		if p, _ := until(ctx, t, c, pod, corev1.PodRunning); p.Spec.SchedulingGroup == nil {
			t.Errorf("pod %s has lost its group", pod)
		}
	}
}
