package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/flux-k8s/fluence/test/stack"
)

const policyAnnotation = "fluence.flux-framework.org/match-policy"

// withPolicy returns the line of a Job's template that names a policy.
func withPolicy(p string) string { return "annotations: {" + policyAnnotation + ": " + p + "}" }

// Each policy puts the same Job on other nodes: in the order of the
// graph, where the nodes of a zone follow each other, or in the
// order of the ids, which is the order of the nodes' arrival here.
func TestAGroupIsPlacedByTheAnnotatedPolicy(t *testing.T) {
	s := tell(t)
	s.nodes("x", 1, "8", zone("a"))
	s.nodes("y", 1, "8", zone("b"))
	s.nodes("z", 1, "8", zone("a"))
	s.nodes("w", 1, "8", zone("b"))
	for _, tc := range []struct {
		policy string
		want   []string
	}{
		{"first", []string{"x-0", "z-0"}},
		{"low", []string{"x-0", "y-0"}},
		{"lonode", []string{"x-0", "y-0"}},
		{"lonodex", []string{"x-0", "y-0"}},
		{"high", []string{"w-0", "z-0"}},
		{"hinode", []string{"w-0", "z-0"}},
	} {
		s.applyText(job(tc.policy, 2, "8", withPolicy(tc.policy)))
		s.running(tc.policy+"-", 2)
		if got := slices.Sorted(maps.Values(s.onNodes(tc.policy + "-"))); !slices.Equal(got, tc.want) {
			t.Errorf("policy %s put the pods on %v, want %v", tc.policy, got, tc.want)
		}
		s.kubectl("delete", "job", tc.policy, "-n", s.ns)
		s.none(tc.policy + "-")
	}
}

func TestThePolicyOfAGroupIsItsOwn(t *testing.T) {
	s := tell(t)
	s.inOrder("n", 4)
	s.apply("match-policy.yaml")
	s.running("from-the-top-", 2)
	s.applyText(job("default", 1, "8"))
	s.running("default-", 1)
	for prefix, want := range map[string][]string{"from-the-top-": {"n-2-0", "n-3-0"}, "default-": {"n-0-0"}} {
		if got := slices.Sorted(maps.Values(s.onNodes(prefix))); !slices.Equal(got, want) {
			t.Errorf("pods %s* are on %v, want %v", prefix, got, want)
		}
	}
}

func TestAPolicyThatIsNoneIsRefusedByName(t *testing.T) {
	s := tell(t)
	s.inOrder("n", 2)
	s.applyText(job("odd", 1, "1", withPolicy("fastest")))
	s.refused("job-odd-", "InvalidMatchPolicy", policyAnnotation, `"fastest"`, "hinode")
	s.noneOnNodes("odd-")
	// The PodGroup's annotation goes before the pods'.
	s.kubectl("annotate", podGroups, s.group(t.Context(), "job-odd-").Name, "-n", s.ns, policyAnnotation+"=hinode")
	s.running("odd-", 1)
	for pod, node := range s.onNodes("odd-") {
		if node != "n-1-0" {
			t.Errorf("pod %s is on %s, want the highest id", pod, node)
		}
	}
}

// onEveryNode is a DaemonSet of the default scheduler.
const onEveryNode = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers:
      - {name: main, image: busybox, resources: {requests: {cpu: 100m}}}
`

func TestWholeNodesAreTheGroupsAlone(t *testing.T) {
	s := tell(t)
	s.inOrder("n", 2)
	s.applyText(onEveryNode)
	s.running("agent-", 2)
	s.apply("whole-nodes.yaml")
	s.running("whole-", 2)
	for pod, node := range s.onNodes("whole-") {
		if node != "n-0-0" {
			t.Errorf("pod %s is on %s, want both on the first node", pod, node)
		}
	}
	// There is room for eight of these, but not for the whole-node group.
	s.applyText(job("others", 8, "1"))
	s.refused("job-others-", "NoRoom", "needs 8 pods", "room for 7", "1 node", "used exclusively by another group")
	s.noneOnNodes("others-")
	s.restart(stack.Scheduler, func(*stack.Config) {})
	s.applyText(job("after", 7, "1"))
	s.running("after-", 7)
	for pod, node := range s.onNodes("after-") {
		if node != "n-1-0" {
			t.Errorf("pod %s is on %s, which is another's as a whole", pod, node)
		}
	}
	// A node that others use is not whole either.
	s.applyText(job("second", 1, "1", withPolicy("lonodex")))
	s.refused("job-second-", "NoRoom", "needs 1 pod", "room for 0", "whole")
	s.kubectl("delete", "job", "whole", "-n", s.ns)
	s.running("second-", 1)
	for pod, node := range s.onNodes("second-") {
		if node != "n-0-0" {
			t.Errorf("pod %s is on %s, want the node that was given back", pod, node)
		}
	}
}

func TestLateMembersShareTheirGroupsWholeNodes(t *testing.T) {
	s := tell(t)
	s.inOrder("n", 2)
	members := func(from, to int) string {
		var all strings.Builder
		for i := from; i < to; i++ {
			all.WriteString(strings.Replace(member(fmt.Sprintf("m-%d", i), "crew", "1", sized(2)), "metadata:\n", "metadata:\n  "+withPolicy("lonodex")+"\n", 1))
		}
		return all.String()
	}
	s.applyText(members(0, 2))
	s.running("m-", 2)
	s.applyText(members(2, 8))
	s.running("m-", 8)
	for pod, node := range s.onNodes("m-") {
		if node != "n-0-0" {
			t.Errorf("pod %s is on %s, want it beside its siblings", pod, node)
		}
	}
}
