package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Requests 14 of the lessons of earlier systems: with fewer pods
// than minMember nothing starts, and the reason is visible.
func TestAGroupWaitsForTheMemberThatIsMissing(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "8")
	s.apply("missing-member.yaml")
	s.refused("ensemble", "Gathering", "waits for 1 more pod", "has 2 of minMember 3")
	s.noneOnNodes("ensemble-")
	s.applyText(member("ensemble-2", "ensemble", "1", sized(3)))
	s.running("ensemble-", 3)
	s.placed("ensemble")
	if got := s.matches("ensemble"); !slices.Equal(got, []int{3}) {
		t.Errorf("pods by match: %v, want all in one", got)
	}
}

// Requests 14: the minimum starts together with as many
// more pods as fit. The rest follow when there is room.
func TestAGroupStartsWithAsManyAsFit(t *testing.T) {
	s := tell(t)
	s.nodes("small", 1, "1")
	s.apply("minimum-and-size.yaml")
	// All eight exist before there is room for any: the minimum is no reason to wait for more.
	s.eventually("eight pods", func(context.Context) (bool, string) {
		n := len(s.pods("elastic-"))
		return n == 8, fmt.Sprintf("%d pods", n)
	})
	s.refused("job-elastic-", "NeverFits", "needs 4 pods", "could hold 1")
	s.noneOnNodes("elastic-")
	s.nodes("large", 1, "5")
	s.running("elastic-", 6)
	s.condition("job-elastic-", "Scheduled", metav1.ConditionTrue, "Placed", "6 pods on 2 nodes", "2 more pods are without a node: NoRoom")
	if got := s.matches("job-elastic-"); !slices.Equal(got, []int{6}) {
		t.Errorf("pods by match: %v, want six in one", got)
	}
	first := s.pods("elastic-")
	s.nodes("late", 1, "2")
	s.running("elastic-", 8)
	s.untouched(slices.DeleteFunc(first, onNoNode))
	s.condition("job-elastic-", "Scheduled", metav1.ConditionTrue, "Placed", "8 pods on 3 nodes")
	if got := s.matches("job-elastic-"); !slices.Equal(got, []int{6, 2}) {
		t.Errorf("pods by match: %v, want six, and the other two together", got)
	}
}

func TestAGroupDoesNotStartBelowItsMinimum(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "3")
	s.apply("minimum-and-size.yaml")
	s.refused("job-elastic-", "NeverFits", "needs 4 pods", "could hold 3")
	s.noneOnNodes("elastic-")
	s.nodes("late", 1, "1")
	s.running("elastic-", 4)
}

func TestPodsOfAJobThatGrowsFollow(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "3")
	s.apply("late-members.yaml")
	s.running("growing-", 2)
	s.placed("job-growing-")
	first := s.pods("growing-")
	s.kubectl("patch", "job", "growing", "-n", s.ns, "-p", `{"spec":{"parallelism":4}}`)
	// The third has room, and does not wait for the fourth.
	s.running("growing-", 3)
	s.condition("job-growing-", "Scheduled", metav1.ConditionTrue, "Placed", "3 pods", "1 more pod is without a node: NoRoom")
	s.nodes("late", 1, "8")
	s.running("growing-", 4)
	s.placed("job-growing-")
	s.untouched(first)
}

func TestLabelledPodsBeyondTheSizeFollow(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "4")
	s.applyText(member("m-0", "crew", "1", sized(2)) + member("m-1", "crew", "1", sized(2)))
	s.running("m-", 2)
	s.placed("crew")
	first := s.pods("m-")
	var late strings.Builder
	for _, name := range []string{"m-2", "m-3", "m-4"} {
		late.WriteString(member(name, "crew", "1", sized(2)))
	}
	s.applyText(late.String())
	s.running("m-", 4)
	s.condition("crew", "Scheduled", metav1.ConditionTrue, "Placed", "4 pods on 1 node", "1 more pod is without a node: NoRoom")
	s.untouched(first)
}

func TestTheTasksOfAnArrayStartAsRoomComes(t *testing.T) {
	s := tell(t)
	s.nodes("n", 16, "8")
	s.apply("job-array.yaml")
	s.running("sweep-", 16)
	s.minimum("job-sweep-", 1)
	s.condition("job-sweep-", "Scheduled", metav1.ConditionTrue, "Placed", "4 more pods are without a node: NoRoom")
	for _, p := range slices.DeleteFunc(s.pods("sweep-"), onNoNode)[:4] {
		s.kubectl("annotate", "pod", p.Name, "-n", s.ns, "kwok.fluence.flux-framework.org/run-for=1ms")
	}
	s.running("sweep-", 16)
	s.eventually("all 20 are on nodes or have ended", func(context.Context) (bool, string) {
		n := len(slices.DeleteFunc(s.pods("sweep-"), onNoNode))
		return n == 20, fmt.Sprintf("%d pods have had nodes", n)
	})
	s.noneRejected()
}

// State 2 of the lessons of earlier systems: the first
// member ends early, and the others keep what they hold.
func TestAMemberThatEndsEarlyGivesBackItsOwnShareOnly(t *testing.T) {
	s := tell(t)
	s.nodes("n", 3, "8")
	s.applyText(job("trio", 3, "8"))
	s.running("trio-", 3)
	members := s.pods("trio-")
	s.applyText(job("next", 2, "8"))
	s.refused("job-next-", "NoRoom", "needs 2 pods", "room for 0")
	for _, m := range members[:1] {
		s.kubectl("annotate", "pod", m.Name, "-n", s.ns, "kwok.fluence.flux-framework.org/run-for=1ms")
	}
	s.refused("job-next-", "NoRoom", "needs 2 pods", "room for 1")
	s.applyText(lonePod("heir", "fluence"))
	s.running("heir", 1)
	if got := s.onNodes("heir")["heir"]; got != members[0].Spec.NodeName {
		t.Errorf("the pod that takes the place is on %q, want %q", got, members[0].Spec.NodeName)
	}
	s.untouched(members[1:])
	s.noneOnNodes("next-")
	s.noneRejected()
}

// State 3 of the lessons of earlier systems: a running member is
// deleted. Its replacement is placed, and its siblings are untouched.
func TestADeletedMemberIsReplacedNearItsSiblings(t *testing.T) {
	s := tell(t)
	// The nodes of zone a have the lowest ids.
	s.inOrder("a", 3, zone("a"), cordoned)
	s.inOrder("b", 3, zone("b"))
	s.applyText(statefulSet("pair", 2, "8"))
	s.running("pair-", 2)
	before := s.pods("pair-")
	lost, sibling := before[0], before[1:]
	s.kubectl("uncordon", "a-0-0", "a-1-0", "a-2-0")
	s.kubectl("cordon", lost.Spec.NodeName)
	s.applyText(lonePod("probe", "fluence"))
	s.running("probe", 1)
	if got := s.onNodes("probe")["probe"]; !strings.HasPrefix(got, "a-") {
		t.Fatalf("a pod of no group is on %q, want it in zone a: this story shows nothing then", got)
	}
	s.lose(lost.Name)
	s.running("pair-", 2)
	for pod, node := range s.onNodes("pair-") {
		if !strings.HasPrefix(node, "b-") || node == lost.Spec.NodeName {
			t.Errorf("pod %s is on %q, want it near its sibling in zone b", pod, node)
		}
	}
	s.untouched(sibling)
}
