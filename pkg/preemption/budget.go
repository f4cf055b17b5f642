package preemption

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// budgets counts disruptions by the PodDisruptionBudgets of each namespace.
type budgets map[string][]*budget

// A budget is a PodDisruptionBudget, with the number of disruptions that are left.
type budget struct {
	selector  labels.Selector
	allowed   int32
	disrupted map[string]metav1.Time
}

// newBudgets reads PodDisruptionBudgets. An empty or invalid selector matches nothing, as in kube-scheduler.
func newBudgets(all []*policyv1.PodDisruptionBudget) budgets {
	b := budgets{}
	for _, pdb := range all {
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil || selector.Empty() {
			continue
		}
		b[pdb.Namespace] = append(b[pdb.Namespace], &budget{selector, pdb.Status.DisruptionsAllowed, pdb.Status.DisruptedPods})
	}
	return b
}

// take counts the disruption of a pod, and reports whether a budget does not allow it. The rule for one pod is
// that of FilterVictimsWithPDBViolation in k8s.io/kubernetes/pkg/scheduler/framework/preemption: a budget that is
// found to be used up ends the count for the pod. The least important pods have to come first.
func (b budgets) take(pod *corev1.Pod) (violates bool) {
	if len(pod.Labels) == 0 {
		return false
	}
	for _, pdb := range b[pod.Namespace] {
		if _, already := pdb.disrupted[pod.Name]; already || !pdb.selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if pdb.allowed--; pdb.allowed < 0 {
			return true
		}
	}
	return false
}
