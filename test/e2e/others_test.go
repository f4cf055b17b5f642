package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/test/stack"
)

// priorities creates priority classes for the story. It
// returns a function that returns the class of a value.
func (s *story) priorities(values ...int) func(value int) string {
	s.Helper()
	return s.classes(corev1.PreemptLowerPriority, values)
}

// patient creates priority classes whose pods evict nobody.
func (s *story) patient(values ...int) func(value int) string {
	s.Helper()
	return s.classes(corev1.PreemptNever, values)
}

func (s *story) classes(policy corev1.PreemptionPolicy, values []int) func(value int) string {
	s.Helper()
	name := func(value int) string { return fmt.Sprintf("%s-%d", s.ns, value) }
	for _, v := range values {
		s.applyText(fmt.Sprintf("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: %s}\nvalue: %d\npreemptionPolicy: %s\n", name(v), v, policy))
		s.discard("priorityclass/" + name(v))
	}
	return name
}

// prioritized gives the pods of a manifest a priority class.
func prioritized(manifest, class string) string {
	indent := "  "
	if strings.Contains(manifest, "kind: Job") {
		indent = "      "
	}
	return strings.Replace(manifest, indent+"schedulerName:", indent+"priorityClassName: "+class+"\n"+indent+"schedulerName:", 1)
}

// ofSize makes the only container of a manifest request an amount of CPU instead of one.
func ofSize(manifest, cpu string) string {
	return strings.Replace(manifest, `cpu: "1"`, `cpu: "`+cpu+`"`, 1)
}

// lingering keeps a pod terminating until letGo is called for it.
func lingering(manifest string) string {
	return strings.Replace(manifest, "metadata: {", "metadata: {finalizers: [fluence.test/lingers], ", 1)
}

func (s *story) letGo(pod string) {
	s.Helper()
	s.kubectl("patch", "pod", pod, "-n", s.ns, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
}

// preempting creates a pod of a scheduler that is nominated for a node of 8 CPUs. A
// pod of 6 CPUs ends slowly there, 2 CPUs are free, and the nominated pod requests 6.
func (s *story) preempting(scheduler string) (class func(int) string) {
	s.Helper()
	class = s.priorities(100, 1000, 2000)
	s.nodes("n", 1, "8")
	s.applyText(lingering(ofSize(lonePod("victim", scheduler), "6")))
	s.running("victim", 1)
	s.applyText(prioritized(ofSize(lonePod("preemptor", scheduler), "6"), class(1000)))
	s.eventually("the preemptor is nominated and its victim ends", func(context.Context) (bool, string) {
		p, v := s.pods("preemptor")[0], s.pods("victim")[0]
		return p.Status.NominatedNodeName == "n-0" && v.DeletionTimestamp != nil,
			fmt.Sprintf("nominated for %q, the victim's deletion %v", p.Status.NominatedNodeName, v.DeletionTimestamp)
	})
	return class
}

// besides runs a story with kube-scheduler, and again with another profile of the same scheduler.
func besides(t *testing.T, then func(s *story, scheduler string)) {
	t.Run("kube-scheduler", func(t *testing.T) { then(tell(t), "default-scheduler") })
	t.Run("profile", func(t *testing.T) {
		s := tell(t)
		s.restarted(
			func(c *stack.Config) { c.Profile = twoProfiles(t) },
			func(c *stack.Config) { c.Profile = nil })
		then(s, "other")
	})
}

// Groups of lower priority leave the room of a nominated pod to it, and
// wait with numbers in the message. Groups of higher priority take it.
func TestANominatedPodGetsItsRoom(t *testing.T) {
	besides(t, func(s *story, scheduler string) {
		class := s.preempting(scheduler)
		s.applyText(prioritized(job("low", 2, "1"), class(100)))
		s.refused("job-low-", "NoRoom", "needs 2 pods with cpu 1", "room for 0")
		s.noneOnNodes("low-")
		s.applyText(prioritized(job("high", 1, "1"), class(2000)))
		s.running("high-", 1)
		s.refused("job-low-", "NoRoom", "needs 2 pods with cpu 1", "room for 0")
		s.letGo("victim")
		s.running("preemptor", 1)
		s.refused("job-low-", "NoRoom", "needs 2 pods with cpu 1", "room for 1")
		s.noneOnNodes("low-")
		s.noneRejected()
	})
}

// The end of a nomination is an event that helps, although the pod held nothing.
func TestAGroupStartsWhenANominationGoes(t *testing.T) {
	besides(t, func(s *story, scheduler string) {
		class := s.preempting(scheduler)
		s.applyText(prioritized(job("low", 2, "1"), class(100)))
		s.refused("job-low-", "NoRoom", "needs 2 pods with cpu 1", "room for 0")
		s.noneOnNodes("low-")
		s.kubectl("delete", "pod", "preemptor", "-n", s.ns, "--force", "--grace-period=0")
		s.running("low-", 2)
		s.letGo("victim")
		s.noneRejected()
	})
}

// State 9 of the lessons of earlier systems: between a group's match and its
// bind another scheduler takes room on one of its nodes, and the kubelet rejects
// a member. The member's share is free at once. Its replacement is placed near
// its siblings, which keep running. The race is counted and reported.
func TestAMemberThatItsKubeletRejectsIsReplaced(t *testing.T) {
	s := tell(t)
	// The node of zone a has the lowest id.
	s.inOrder("a", 1, zone("a"), cordoned)
	s.inOrder("b", 4, zone("b"))
	s.gated(false)
	s.gate("PreBind held")
	s.applyText(job("three", 3, "8", "labels: {held: please}"))
	s.eventually("a match for the group", func(context.Context) (bool, string) {
		return slices.Equal(s.matches("job-three-"), []int{3}), fmt.Sprint(s.matches("job-three-"))
	})
	s.applyText(podOn("foreign", "b-1-0", "", ""))
	s.running("foreign", 1)
	s.noneOnNodes("three-")
	s.kubectl("uncordon", "a-0-0")
	s.gate("")
	s.running("three-", 2)
	siblings := slices.DeleteFunc(s.pods("three-"), func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
	s.lostRace("three-", "b-1-0")

	s.running("three-", 3)
	s.untouched(append(siblings, s.pods("foreign")...))
	nodes := map[string]bool{}
	for _, p := range s.pods("three-") {
		if p.Status.Phase == corev1.PodRunning {
			nodes[p.Spec.NodeName] = true
		}
	}
	if want := map[string]bool{"b-0-0": true, "b-2-0": true, "b-3-0": true}; !maps.Equal(nodes, want) {
		t.Errorf("the group runs on %v, want it on %v", nodes, want)
	}
	s.placed("job-three-")

	// All of that node is available, except the foreign pod's share.
	s.kubectl("cordon", "a-0-0")
	s.applyText(job("rest", 1, "7"))
	s.running("rest-", 1)
	s.lostRace("three-", "b-1-0")
}

// lostRace fails unless exactly one pod of the group was rejected by the node's
// kubelet: by the pod's status, the metric and an event on the PodGroup.
func (s *story) lostRace(prefix, node string) {
	s.Helper()
	var lost []corev1.Pod
	s.eventually("a race counted", func(ctx context.Context) (bool, string) {
		n, err := s.SchedulerMetric(ctx, "fluence_kubelet_rejections_total")
		return n > 0, fmt.Sprintf("%v, error %v", n, err)
	})
	for _, p := range s.pods(prefix) {
		if p.Status.Phase == corev1.PodFailed {
			lost = append(lost, p)
		}
	}
	if len(lost) != 1 || lost[0].Status.Reason != "OutOfcpu" || lost[0].Spec.NodeName != node {
		s.Fatalf("failed: %+v, want one OutOfcpu on %s", lost, node)
	}
	note := fmt.Sprintf("pod %s was bound to node %s, whose kubelet rejected it: OutOfcpu: %s", lost[0].Name, node, lost[0].Status.Message)
	s.event("RejectedByKubelet", note)
	out := s.kubectl("describe", "podgroups.scheduling.x-k8s.io", s.group(s.Context(), "job-"+prefix).Name, "-n", s.ns)
	if strings.Count(out, "RejectedByKubelet") != 1 || !strings.Contains(out, note) {
		s.Errorf("want %q once on the PodGroup:\n%s", note, out)
	}
	if n, err := s.SchedulerMetric(s.Context(), "fluence_kubelet_rejections_total"); n != 1 || err != nil {
		s.Errorf("%v races counted (error %v), want 1", n, err)
	}
}
