package fluence

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/flux-k8s/fluence/test/objects"
)

var inNativeTrain = objects.InNativeGroup("train")

// ofScheduler makes a pod ask for another scheduler.
func ofScheduler(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = name }
}

func preempting(policy corev1.PreemptionPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &policy }
}

// Their scheduler does not know that others wait for them.
func TestThePodsOfAnotherSchedulerInANativePodGroupAreTold(t *testing.T) {
	inRig(t, nil, func(r *rig) {
		r.native.turnOn()
		r.pass(time.Minute)
		pod := r.nativePods("train", 1)[0]
		r.native.put(nativeGang("train", 3))
		r.pass(0)
		const gathering = "waits for 2 more pods: has 1 of minCount 3"
		r.wantHeld(pod, gathering)
		for _, name := range []string{"a", "b"} {
			r.pod(name, inNativeTrain, ofScheduler("default-scheduler"))
		}
		r.pod("c", inNativeTrain, ofScheduler("volcano"))
		r.pass(0)
		r.wantHeld(pod, gathering+"; not counted: 1 pod with schedulerName volcano, 2 pods with schedulerName default-scheduler")
		r.remove("a")
		r.remove("c")
		r.pass(0)
		r.wantHeld(pod, gathering+"; not counted: 1 pod with schedulerName default-scheduler")
		r.remove("b")
		r.pass(0)
		r.wantHeld(pod, gathering)
		if n := len(r.pl.nativeMembers.pods); n != 1 {
			t.Errorf("%d pods are counted, want the one that waits", n)
		}
		r.remove("train-0")
		r.pass(0)
		if n, m := len(r.pl.nativeMembers.pods), len(r.pl.nativeMembers.counts); n+m > 0 {
			t.Errorf("%d pods and %d groups are counted, want none", n, m)
		}
	})
}

// Kubernetes requires one preemption policy of all pods of a group, and of the PodGroup if it has one.
func TestThePreemptionPoliciesOfANativePodGroup(t *testing.T) {
	never := func(pg *schedulingv1beta1.PodGroup) {
		pg.Spec.PreemptionPolicy = new(schedulingv1beta1.PreemptNever)
	}
	const differ = "podgroup.scheduling.k8s.io ns/train and its pods have the preemption policies Never and PreemptLowerPriority: they must all have the same"
	cases := map[string]struct {
		podGroup *schedulingv1beta1.PodGroup
		second   func(*corev1.Pod)
		want     string
	}{
		"the same":                          {nativeGang("train", 2), preempting(corev1.PreemptLowerPriority), ""},
		"pods that differ":                  {nativeGang("train", 2), preempting(corev1.PreemptNever), differ},
		"pods that differ from the group's": {nativeGang("train", 2, never), preempting(corev1.PreemptLowerPriority), differ},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inRig(t, nil, func(r *rig) {
				r.native.turnOn()
				r.pass(time.Minute)
				r.native.put(tc.podGroup)
				first := r.nativePods("train", 1)[0]
				r.pod("second", inNativeTrain, tc.second)
				r.pass(0)
				r.wantHeld(first, tc.want)
				if tc.podGroup.Spec.PreemptionPolicy == nil && tc.want != "" {
					r.remove("second")
					r.pod("third", inNativeTrain)
					r.pass(0)
					r.wantPasses(first)
				}
			})
		})
	}
}
