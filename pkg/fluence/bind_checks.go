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

// bindChecks repeats, right before a bind, those checks of the profile's filters whose
// result may have changed after the match. It checks cordons and taints itself.
// binder.whyFull checks room if room is set. The zero value checks nothing.
type bindChecks struct {
	// cordons, taints and room tell which of the filters the profile
	// enables: NodeUnschedulable, TaintToleration and NodeResourcesFit.
	cordons, taints, room bool
}

// bindChecksOf returns the guard of a profile with these filters.
func bindChecksOf(filters []string) bindChecks {
	var g bindChecks
	for _, name := range filters {
		g.cordons = g.cordons || name == names.NodeUnschedulable
		g.taints = g.taints || name == names.TaintToleration
		g.room = g.room || name == names.NodeResourcesFit
	}
	return g
}

// whyRejected returns why a node does not take a pod
// any more. It returns "" if the node takes the pod.
func (g bindChecks) whyRejected(log klog.Logger, node *corev1.Node, pod *corev1.Pod) string {
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
