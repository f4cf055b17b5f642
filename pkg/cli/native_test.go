package cli

import (
	"fmt"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/test/objects"
)

// natives is cluster with groups of native PodGroups: one waits, one has started, a
// third has a Job, and pods name a fourth that does not exist.
func natives() []runtime.Object {
	owned := job("plain")
	all := append(cluster(), owned,
		nativePodGroup("ring", 4, scheduled(metav1.ConditionFalse, "NoRoom", "needs 4 pods with cpu 7; room for 3")),
		nativePodGroup("pair", 2, scheduled(metav1.ConditionTrue, "Placed", "2 pods on 1 node (node-5: 2)")),
		nativePodGroup("plain-x7k2p", 0, scheduled(metav1.ConditionFalse, "NoMinimum", "the controller writes it within seconds")))
	for i := range 4 {
		all = append(all, pod(fmt.Sprintf("ring-%d", i), "", "7", objects.InNativeGroup("ring")))
	}
	for i := range 2 {
		all = append(all, pod(fmt.Sprintf("pair-%d", i), "node-5", "1", objects.InNativeGroup("pair")))
	}
	return append(all, pod("plain-0", "", "1", ofJob(owned), objects.InNativeGroup("plain-x7k2p")), pod("lost-0", "", "1", objects.InNativeGroup("gone")))
}

// nativePodGroup is a native PodGroup. With minCount 0 its policy is basic.
func nativePodGroup(name string, minCount int32, scheduled metav1.Condition) *schedulingv1beta1.PodGroup {
	pg := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name, UID: types.UID("native-" + name), CreationTimestamp: ago(time.Minute)}}
	if minCount > 0 {
		pg.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	} else {
		pg.Spec.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
	}
	scheduled.Type = "fluence.flux-framework.org/Scheduled"
	pg.Status.Conditions = []metav1.Condition{scheduled}
	return pg
}

// nativeManifest has a native PodGroup with this spec, and n pods of it.
func nativeManifest(spec string, n int, cpu string) string {
	text := "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: new}\nspec: " + spec + "\n"
	for i := range n {
		text += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: new-%d}\nspec: {schedulerName: fluence, schedulingGroup: {podGroupName: new}, containers: [{name: c, image: i, resources: {requests: {cpu: %q}}}]}\n", i, cpu)
	}
	return text
}
