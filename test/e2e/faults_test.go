package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/test/stack"
)

func (s *story) kill(name string) {
	s.Helper()
	if err := s.Process(name).Kill(context.WithoutCancel(s.Context())); err != nil {
		s.Fatalf("kill %s: %v", name, err)
	}
}

func (s *story) start(name string) {
	s.Helper()
	start := map[string]func(context.Context) error{
		stack.Sidecar: s.StartSidecar, stack.Scheduler: s.StartScheduler, stack.Controller: s.StartController,
	}[name]
	if err := start(context.WithoutCancel(s.Context())); err != nil {
		s.Fatal(err)
	}
}

// job returns a Job of n pods with an amount of CPU
// each, and with further lines of its pods' metadata.
func job(name string, n int, cpu string, metadata ...string) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  parallelism: %d
  completions: %d
  template:
    metadata: {%s}
    spec:
      schedulerName: fluence
      restartPolicy: Never
      containers:
      - {name: main, image: busybox, resources: {requests: {cpu: "%s"}}}
`, name, n, n, strings.Join(metadata, ", "), cpu)
}

// lonePod returns a pod of a scheduler that requests one CPU.
func lonePod(name, scheduler string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  schedulerName: %s
  containers:
  - {name: main, image: busybox, resources: {requests: {cpu: "1"}}}
`, name, scheduler)
}

// whenBound runs f when a pod of the namespace has a node. It polls,
// because the API server ends a watch that is too slow for a burst.
func (s *story) whenBound(apply, f func()) {
	s.Helper()
	apply()
	s.soon("a pod on a node", 5*time.Millisecond, func(context.Context) (bool, string) { return len(s.onNodes("")) > 0, "none" })
	f()
}

// noneRejected fails if a kubelet rejected a pod. Then two pods were given the same room.
func (s *story) noneRejected() {
	s.Helper()
	for _, p := range s.pods("") {
		if p.Status.Phase == corev1.PodFailed {
			s.Errorf("pod %s failed: %s, %s", p.Name, p.Status.Reason, p.Status.Message)
		}
	}
}

// State 1 of the lessons of earlier systems, for the sidecar:
// it forgets everything, and no room is assigned twice.
func TestSidecarKilledBetweenTwoGroups(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "8")
	s.applyText(job("before", 3, "8"))
	s.running("before-", 3)
	s.kill(stack.Sidecar)
	s.start(stack.Sidecar)
	s.applyText(job("after", 2, "8"))
	s.refused("job-after-", "NoRoom", "needs 2 pods", "room for 1")
	s.applyText(job("fits", 1, "8"))
	s.running("fits-", 1)
	s.kubectl("delete", "job", "before", "-n", s.ns)
	s.running("after-", 2)
	s.noneRejected()
}

func TestSidecarKilledWhileAGroupIsPlaced(t *testing.T) {
	s := tell(t)
	s.nodes("n", 10, "8")
	s.whenBound(func() { s.applyText(job("large", 80, "1")) }, func() { s.kill(stack.Sidecar) })
	s.start(stack.Sidecar)
	s.running("large-", 80)
	s.noneRejected()
}

// Flow 18: all others continue.
func TestGroupsWaitForASidecarThatIsGoneAndOthersDoNot(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.kill(stack.Sidecar)
	s.applyText(job("waits", 2, "1"))
	s.applyText(lonePod("alone", "fluence"))
	s.refused("job-waits-", "MatcherUnavailable", "the matcher does not answer")
	s.eventually("an event on the lone pod", func(context.Context) (bool, string) {
		out := s.kubectl("get", "events", "-n", s.ns, "--field-selector=involvedObject.name=alone")
		return strings.Contains(out, "the matcher does not answer"), out
	})
	s.applyText(lonePod("other", "default-scheduler"))
	s.running("other", 1)
	s.noneOnNodes("waits-")
	s.start(stack.Sidecar)
	s.running("waits-", 2)
	s.running("alone", 1)
}

// State 1, for the scheduler.
func TestSchedulerKilledWithAGroupHalfBound(t *testing.T) {
	s := tell(t)
	s.nodes("n", 10, "8")
	s.whenBound(func() { s.applyText(job("large", 80, "1")) }, func() { s.kill(stack.Scheduler) })
	t.Logf("%d of 80 pods were bound when the scheduler was killed", len(s.onNodes("large-")))
	s.start(stack.Scheduler)
	s.running("large-", 80)
	s.placed("job-large-")
	s.noneRejected()
}

func TestSchedulerKilledWithAGroupHalfCreated(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	member := func(i int) string {
		return strings.Replace(lonePod(fmt.Sprintf("m-%d", i), "fluence"), "}\nspec",
			`, labels: {scheduling.x-k8s.io/pod-group: half, fluence.group-size: "4"}}`+"\nspec", 1)
	}
	s.applyText(member(0) + "---\n" + member(1))
	s.refused("half", "Gathering", "waits for 2 more pods", "minMember 4")
	s.kill(stack.Scheduler)
	s.applyText(member(2))
	s.start(stack.Scheduler)
	s.refused("half", "Gathering", "waits for 1 more pod", "minMember 4")
	s.noneOnNodes("m-")
	s.applyText(member(3))
	s.running("m-", 4)
}

// If a Filter returns an error after the match, neither PostFilter nor Unreserve is called.
func TestAnErrorOfAnotherFilterLeavesNothingAllocated(t *testing.T) {
	binary, err := faultyScheduler()
	if err != nil {
		t.Fatal(err)
	}
	s := tell(t)
	s.nodes("n", 2, "8")
	s.restarted(func(c *stack.Config) {
		c.SchedulerBinary = binary
		c.Profile = func(config map[string]any) {
			points := config["profiles"].([]any)[0].(map[string]any)["plugins"].(map[string]any)
			points["filter"] = map[string]any{"enabled": []any{map[string]any{"name": "Faulty"}}}
		}
	}, func(c *stack.Config) { c.SchedulerBinary, c.Profile = "", nil })
	s.applyText(job("bad", 2, "8", "labels: {faulty: please}"))
	s.eventually("the fault on the pod", func(context.Context) (bool, string) {
		for _, p := range s.pods("bad-") {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "faulty on purpose") {
					return true, ""
				}
			}
		}
		return false, "no such condition"
	})
	// The faulty group retries repeatedly. A good one
	// of the same size gets the nodes when it comes.
	s.applyText(job("good", 2, "8"))
	s.running("good-", 2)
	s.noneOnNodes("bad-")
}
