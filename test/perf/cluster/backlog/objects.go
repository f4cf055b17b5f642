package backlog

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placing "github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

// UrgentClass is the name of the PriorityClass of urgent gangs. UrgentPriority is its value.
const (
	UrgentClass    = "urgent"
	UrgentPriority = 1000
)

// pod returns a pod of a gang. Pods differ only in scheduler, CPU, priority and group.
func pod(by Scheduler, cpu resource.Quantity, g Gang, name string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: string(by),
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: cpu},
			}}},
			// A volume would cost every contender the same, and serve nothing.
			AutomountServiceAccountToken: new(bool),
		},
	}
	if g.Urgent {
		p.Spec.PriorityClassName = UrgentClass
	}
	switch {
	case !g.Group:
	case g.isNative(by):
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &g.Name}
	default:
		p.Labels = map[string]string{scheduling.PodGroupLabel: g.Name}
	}
	return p
}

func nativeGroup(g Gang) *schedulingv1beta1.PodGroup {
	group := &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: g.Name},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(len(g.Pods))},
		}},
	}
	if g.Urgent {
		group.Spec.PriorityClassName = UrgentClass
	}
	if g.Rack {
		group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: RackLabel}},
		}
	}
	return group
}

func fluenceGroup(g Gang) *scheduling.PodGroup {
	group := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
	group.Spec.MinMember = int32(len(g.Pods))
	if g.Rack {
		group.Annotations = map[string]string{placing.TopologyRequiredAnnotation: RackLabel}
	}
	return group
}
