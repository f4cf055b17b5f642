package translate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/test/objects"
)

func bound(p *corev1.Pod) { p.Spec.NodeName = "n1" }

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func TestHolds(t *testing.T) {
	cases := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"waiting":                  {podWith(objects.InPhase(corev1.PodPending)), false},
		"bound, not started":       {podWith(bound, objects.InPhase(corev1.PodPending)), true},
		"running":                  {podWith(bound, objects.InPhase(corev1.PodRunning)), true},
		"not heard of for a while": {podWith(bound, objects.InPhase(corev1.PodUnknown)), true},
		"terminating":              {podWith(bound, objects.InPhase(corev1.PodRunning), terminating), true},
		"succeeded":                {podWith(bound, objects.InPhase(corev1.PodSucceeded)), false},
		"failed":                   {podWith(bound, objects.InPhase(corev1.PodFailed)), false},
		"failed while terminating": {podWith(bound, objects.InPhase(corev1.PodFailed), terminating), false},
		"ended without a node":     {podWith(objects.InPhase(corev1.PodFailed)), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Holds(tc.pod); got != tc.want {
				t.Errorf("Holds = %v, want %v", got, tc.want)
			}
		})
	}
}

// controlledBy sets the pod's controller, and adds another owner that does not control it.
func controlledBy(apiVersion, kind string) podOption {
	return func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "merely-owner"},
			{APIVersion: apiVersion, Kind: kind, Name: "x", Controller: &yes},
		}
	}
}

func TestHeldIsSharedWhereAPodRunsOnEveryNode(t *testing.T) {
	cases := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a DaemonSet's":                        {podWith(bound, controlledBy("apps/v1", "DaemonSet")), true},
		"a DaemonSet's of another API":         {podWith(bound, controlledBy("apps.kruise.io/v1alpha1", "DaemonSet")), true},
		"one that says so, and ends":           {podWith(bound, controlledBy("example.com/v1", "DaemonSet"), func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever }), false},
		"one that says so, and has a deadline": {podWith(bound, controlledBy("apps/v1", "DaemonSet"), func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(60)) }), false},
		"the image of a static pod":            {podWith(bound, controlledBy("v1", "Node")), true},
		"a Job's":                              {podWith(bound, controlledBy("batch/v1", "Job")), false},
		"of something else that is no kubelet": {podWith(bound, controlledBy("example.com/v1", "Node")), false},
		"nobody's":                             {podWith(bound), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := HeldSlot(tc.pod); got.Shared != tc.want || got.Holder != "" {
				t.Errorf("Held = shared %v, holder %q, want shared %v and no holder", got.Shared, got.Holder, tc.want)
			}
		})
	}
}

func TestHeld(t *testing.T) {
	got := HeldSlot(podWith(app("cpu", "250m"), bound))
	want := match.Slot{Key: "uid-a", Node: "n1", R: Amounts{"core": 250, "pods": 1}.Set()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Held (-want +got):\n%s", diff)
	}
}

func TestNominatedIsWhatWouldBeHeldOnThatNode(t *testing.T) {
	nominated := podWith(controlledBy("apps/v1", "DaemonSet"), func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" })
	want := HeldSlot(podWith(controlledBy("apps/v1", "DaemonSet"), bound))
	if diff := cmp.Diff(want, NominatedSlot(nominated)); diff != "" || !want.Shared {
		t.Errorf("nominated (-held +nominated):\n%s", diff)
	}
}
