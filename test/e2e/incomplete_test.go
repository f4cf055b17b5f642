package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// losesANode runs a group of two on two nodes, and removes
// one of the nodes. It returns the pod that is left.
func (s *story) losesANode(kind, prefix string) corev1.Pod {
	s.Helper()
	s.running(prefix, 2)
	s.placed(kind + prefix)
	pods := s.pods(prefix)
	lost, left := pods[0], pods[1]
	// The pod goes with its node. The controller manager would delete it within a minute.
	if err := s.RemoveNodes(s.Context(), lost.Spec.NodeName); err != nil {
		s.Fatal(err)
	}
	s.lose(lost.Name)
	s.event("MembersMissing", "1 of 2 pods")
	return left
}

// whole waits until a group is no longer reported incomplete.
func (s *story) whole(prefix string) {
	s.Helper()
	s.eventually("PodGroup "+prefix+"* is not incomplete", func(ctx context.Context) (bool, string) {
		g := s.group(ctx, prefix)
		return g != nil && !meta.IsStatusConditionTrue(g.Status.Conditions, "Incomplete"), s.columns(prefix)
	})
}

func TestAnIncompleteGroupWaits(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.apply("incomplete-wait.yaml")
	left := s.losesANode("statefulset-", "patient-")
	s.condition("statefulset-patient-", "Incomplete", metav1.ConditionTrue, "MembersMissing", "1 of 2 pods")
	s.refused("statefulset-patient-", "NoRoom", "1 of 2 pods")
	s.untouched([]corev1.Pod{left})
	s.nodes("late", 1, "8")
	s.running("patient-", 2)
	s.whole("statefulset-patient-")
	s.placed("statefulset-patient-")
	s.untouched([]corev1.Pod{left})
	if events := s.kubectl("get", "events", "-n", s.ns); strings.Contains(events, "Restarting") {
		t.Errorf("it was restarted:\n%s", events)
	}
}

// The pods that a running group has lost are placed before other groups start.
func TestWhatAnIncompleteGroupLacksGoesFirst(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.apply("incomplete-wait.yaml")
	s.losesANode("statefulset-", "patient-")
	for i := range 3 {
		s.applyText(job(fmt.Sprintf("other-%d", i), 1, "8"))
		s.refused(fmt.Sprintf("job-other-%d-", i), "NoRoom", "room for 0")
	}
	// A joining node becomes ready in several steps. Here the room
	// comes in one step, after all groups have tried and wait.
	s.nodes("late", 1, "8", cordoned)
	s.refused("statefulset-patient-", "NoRoom", "unschedulable")
	s.refused("job-other-0-", "NoRoom", "unschedulable") // it retries on behalf of the others, which are equal
	s.kubectl("uncordon", "late-0")
	s.running("", 2)
	s.running("patient-", 2)
	s.noneOnNodes("other-")
}

func TestAnIncompleteGroupStartsAgainAsAWhole(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.apply("incomplete-restart.yaml")
	left := s.losesANode("statefulset-", "strict-")
	s.eventually("the pod that was left is evicted", func(context.Context) (bool, string) {
		pods := s.pods("strict-")
		return !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID == left.UID }), s.columns("")
	})
	s.event("Restarting", "Evicting 1 pod")
	s.refused("statefulset-strict-", "NeverFits", "needs 2 pods", "could hold 1")
	s.noneOnNodes("strict-")
	s.nodes("late", 1, "8")
	s.running("strict-", 2)
	s.placed("statefulset-strict-")
	s.whole("statefulset-strict-")
	if got := s.matches("statefulset-strict-"); !slices.Equal(got, []int{2, 2}) {
		t.Errorf("pods by match: %v, want both at once, twice", got)
	}
}

// A bad value is reported, and no pod is evicted because of it.
func TestABadIncompletePolicyIsToldOnTheGroup(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.applyText(job("odd", 2, "8", `annotations: {fluence.flux-framework.org/incomplete-policy: explode, fluence.flux-framework.org/incomplete-timeout: 1s}`))
	s.condition("job-odd-", "Valid", metav1.ConditionFalse, "InvalidAnnotation", "incomplete-policy", `"explode"`)
	s.untouched([]corev1.Pod{s.losesANode("job-", "odd-")})
}
