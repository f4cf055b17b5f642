package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
)

func TestJobIsPlacedWhole(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "8")
	s.apply("job.yaml")
	s.running("eight-", 8)
	s.placed("job-eight-")
	// Each pod was bound by the scheduler of this name.
	s.eventually("8 events Scheduled, reported by fluence", func(ctx context.Context) (bool, string) {
		events, err := s.Client().EventsV1().Events(s.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		n := 0
		for _, e := range events.Items {
			if e.Reason == "Scheduled" && e.ReportingController == "fluence" {
				n++
			}
		}
		return n == 8, fmt.Sprintf("%d events", n)
	})
	s.eventually("the group has its phase", func(ctx context.Context) (bool, string) {
		phase := s.group(ctx, "job-eight-").Status.Phase
		return phase == scheduling.PodGroupRunning, string(phase)
	})
	text := s.kubectl("describe", "podgroups.scheduling.x-k8s.io", "-n", s.ns)
	for _, want := range []string{"Min Member:  8", "Creation Time:", "Phase:", "Scheduled", "Placed", "8 pods on 1 node (n-", "ValidGroupSize"} {
		if !strings.Contains(text, want) {
			t.Errorf("the description lacks %q:\n%s", want, text)
		}
	}
	g := s.group(t.Context(), "job-eight-")
	if g.Status.CreationTime == nil || !strings.Contains(text, g.Status.CreationTime.UTC().Format("2006-01-02T15:04:05.000000Z")) {
		t.Errorf("the description lacks the creation time in microseconds, %v:\n%s", g.Status.CreationTime, text)
	}
}

func TestGroupWaitsForANode(t *testing.T) {
	s := tell(t)
	s.nodes("n", 3, "8")
	s.apply("wait-for-a-node.yaml")
	s.refused("job-four-nodes-", "NeverFits", "needs 4 pods with cpu 8", "could hold 3")
	s.noneOnNodes("four-nodes-")
	s.nodes("late", 1, "8")
	s.running("four-nodes-", 4)
	s.placed("job-four-nodes-")
}

func TestLeaderAndWorkersAskForTheirOwnShares(t *testing.T) {
	s := tell(t)
	s.nodes("small", 2, "2")
	s.nodes("large", 1, "4")
	s.apply("leader-and-workers.yaml")
	s.running("", 5)
	if got := s.onNodes("")["leader"]; got != "large-0" {
		t.Errorf("the leader is on %s, want large-0", got)
	}
}

func TestFourPodsOnOneNode(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "1")
	s.apply("four-on-one-node.yaml")
	s.running("quarters-", 4)
}

func TestTwoGroupsDoNotShareWhatOneNeeds(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "8")
	s.apply("two-jobs.yaml")
	s.running("", 4)
	owners := map[string]int{}
	for name := range s.onNodes("") {
		owners[strings.SplitN(name, "-", 2)[0]]++
	}
	if len(owners) != 1 {
		t.Fatalf("pods on nodes by Job: %v, want all of one", owners)
	}
	winner := slices.Collect(maps.Keys(owners))[0]
	loser := map[string]string{"first": "second", "second": "first"}[winner]
	s.refused("job-"+loser+"-", "NoRoom", "needs 4 pods", "room for 0")
	s.noneOnNodes(loser + "-")
	s.kubectl("delete", "job", winner, "-n", s.ns)
	s.running(loser+"-", 4)
}

func TestPodsOfTheDefaultSchedulerAreCharged(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.applyText(`apiVersion: v1
kind: Pod
metadata: {name: before}
spec:
  containers:
  - {name: main, image: busybox, resources: {requests: {cpu: "1"}}}
`)
	s.running("before", 1)
	s.kubectl("delete", "pod", "before", "-n", s.ns)
	s.apply("beside-the-default-scheduler.yaml")
	s.running("neighbour", 1)
	// The neighbour may come after the Job was placed. Then the Job is created again.
	if len(s.onNodes("beside-")) > 0 {
		s.kubectl("delete", "job", "beside", "-n", s.ns)
		s.apply("beside-the-default-scheduler.yaml")
	}
	s.refused("job-beside-", "NoRoom", "needs 2 pods", "room for 1")
	s.noneOnNodes("beside-")
	s.kubectl("delete", "pod", "neighbour", "-n", s.ns)
	s.running("beside-", 2)
}

func TestNodesThatFiltersRuleOutAreNotMatched(t *testing.T) {
	s := tell(t)
	ssd := label("disktype", "ssd")
	s.nodes("a-tainted", 1, "8", ssd, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "others", Effect: corev1.TaintEffectNoSchedule}}
	})
	s.nodes("b-cordoned", 1, "8", ssd, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	s.nodes("c-disk", 1, "8")
	s.nodes("d-zone", 1, "8", ssd, label("topology.kubernetes.io/zone", "c"))
	s.nodes("e-good", 1, "8", ssd)
	s.apply("nodes-ruled-out.yaml")
	s.refused("job-picky-", "NeverFits", "needs 2 pods", "could hold 1", "4 are excluded", "untolerated taint", "unschedulable", "affinity")
	s.noneOnNodes("picky-")
	s.kubectl("uncordon", "b-cordoned-0")
	s.running("picky-", 2)
	for pod, node := range s.onNodes("picky-") {
		if node != "e-good-0" && node != "b-cordoned-0" {
			t.Errorf("pod %s is on %s, which its filters rule out", pod, node)
		}
	}
}

func TestLonePodNeedsNoGroup(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "1")
	s.apply("lone-pod.yaml")
	s.running("lone", 1)
	if groups, err := s.PodGroups(t.Context(), s.ns); err != nil || len(groups) != 0 {
		t.Errorf("PodGroups = %v, error %v; want none", groups, err)
	}
}

func TestOwnPodGroupIsUsedAsItIs(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "4")
	s.apply("own-podgroup.yaml")
	s.running("mine-", 2)
	s.placed("mine")
	s.kubectl("delete", "pods", "--all", "-n", s.ns, "--force", "--grace-period=0")
	if g := s.group(t.Context(), "mine"); g == nil {
		t.Error("a user's own PodGroup is gone with its pods")
	}
}

func TestHighPriorityGroupThatCannotStartEvictsNobody(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "8")
	for i := range 2 {
		s.applyText(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: low-%d}
spec:
  nodeName: n-%d
  containers:
  - {name: main, image: busybox, resources: {requests: {cpu: "8"}}}
`, i, i))
	}
	s.running("low-", 2)
	s.apply("high-priority.yaml")
	s.refused("job-urgent-", "NoRoom", "needs 4 pods", "room for 2")
	for _, p := range s.pods("low-") {
		if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
			t.Errorf("pod %s was evicted for a group that could not start", p.Name)
		}
	}
	for _, p := range s.pods("urgent-") {
		if p.Status.NominatedNodeName != "" {
			t.Errorf("pod %s is nominated to %s", p.Name, p.Status.NominatedNodeName)
		}
	}
}
