package fluence

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// A guard says whether a node still takes a pod that was matched to it a moment ago, as far
// as the profile's own filters look at that. The zero value lets all pass. With room set, the
// inventory is asked, too, whether there is room.
type guard struct {
	// cordons, taints and room say which of the filters the profile enables.
	cordons, taints, room bool
}

// guardOf returns the guard of a profile with these filters.
func guardOf(filters []string) guard {
	var g guard
	for _, name := range filters {
		g.cordons = g.cordons || name == names.NodeUnschedulable
		g.taints = g.taints || name == names.TaintToleration
		g.room = g.room || name == names.NodeResourcesFit
	}
	return g
}

// whyRejected says why a node takes a pod no more; empty is that it does.
func (g guard) whyRejected(log klog.Logger, node *corev1.Node, pod *corev1.Pod) string {
	operators := utilfeature.DefaultFeatureGate.Enabled(features.TaintTolerationComparisonOperators)
	if g.cordons && node.Spec.Unschedulable {
		cordon := &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
		if !corev1helpers.TolerationsTolerateTaint(log, pod.Spec.Tolerations, cordon, operators) {
			return fmt.Sprintf("node %s, which was matched for pod %s, is cordoned", node.Name, pod.Name)
		}
	}
	if !g.taints {
		return ""
	}
	if t, there := corev1helpers.FindMatchingUntoleratedTaint(log, node.Spec.Taints, pod.Spec.Tolerations, helper.DoNotScheduleTaintsFilterFunc(), operators); there {
		return fmt.Sprintf("node %s, which was matched for pod %s, has the taint %s, which the pod does not tolerate", node.Name, pod.Name, t.ToString())
	}
	return ""
}
