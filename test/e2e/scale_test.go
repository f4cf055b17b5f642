package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (s *story) scale(what string, n int) {
	s.Helper()
	s.kubectl("scale", what, "-n", s.ns, fmt.Sprintf("--replicas=%d", n))
}

// free fails unless n pods of 8 CPUs fit: nobody holds what others have released.
func (s *story) free(n int) {
	s.Helper()
	s.applyText(job("fills", n, "8"))
	s.running("fills-", n)
	s.applyText(job("too-many", 1, "8"))
	s.refused("job-too-many-", "NoRoom", "needs 1 pod", "room for 0")
	s.noneRejected()
}

// Requests 15 of the lessons of earlier systems, for StatefulSets.
func TestAStatefulSetIsScaledUpAndDown(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "8")
	s.applyText(statefulSet("ranks", 2, "8"))
	s.running("ranks-", 2)
	s.minimum("statefulset-ranks-", 2)
	first := s.pods("ranks-")
	s.scale("statefulset/ranks", 4)
	s.running("ranks-", 4)
	s.minimum("statefulset-ranks-", 4)
	s.placed("statefulset-ranks-")
	s.untouched(first)
	s.scale("statefulset/ranks", 1)
	s.minimum("statefulset-ranks-", 1)
	s.eventually("one pod left", func(context.Context) (bool, string) {
		n := len(s.pods("ranks-"))
		return n == 1, fmt.Sprintf("%d pods", n)
	})
	s.untouched(first[:1])
	s.free(3)
}

// Requests 15, for Deployments.
func TestADeploymentIsScaledUpAndDown(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4, "8")
	s.apply("deployment.yaml")
	s.running("service-", 2)
	first := s.pods("service-")
	s.scale("deployment/service", 5)
	s.running("service-", 4)
	s.minimum("deployment-service-", 1)
	s.condition("deployment-service-", "Scheduled", metav1.ConditionTrue, "Placed", "4 pods on 4 nodes", "1 more pod is without a node: NoRoom")
	s.untouched(first)
	s.scale("deployment/service", 1)
	s.eventually("one pod left", func(context.Context) (bool, string) {
		n := len(s.pods("service-"))
		return n == 1, fmt.Sprintf("%d pods", n)
	})
	s.free(3)
}

// A rolling update ends: the new pods are members of the
// running group, and do not wait until the old ones are gone.
func TestARollingUpdateRunsToItsEnd(t *testing.T) {
	replaceOne := "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}"
	cases := map[string]struct {
		start func(*story)
		name  string
		nodes int
	}{
		"one may start alone":          {name: "service", nodes: 3, start: func(s *story) { s.apply("deployment.yaml") }},
		"all start or none":            {name: "ring", nodes: 4, start: func(s *story) { s.apply("deployment-all-or-nothing.yaml") }},
		"there is room for no new pod": {name: "tight", nodes: 3, start: func(s *story) { s.applyText(deployment("tight", 3, "8", replaceOne)) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t)
			s.nodes("n", tc.nodes, "8")
			tc.start(s)
			s.kubectl("rollout", "status", "deployment/"+tc.name, "-n", s.ns, "--timeout=60s")
			before := s.pods(tc.name + "-")
			s.kubectl("set", "env", "deployment/"+tc.name, "-n", s.ns, "RELEASE=2")
			s.kubectl("rollout", "status", "deployment/"+tc.name, "-n", s.ns, "--timeout=60s")
			s.eventually("none of the old pods left", func(context.Context) (bool, string) {
				left := slices.DeleteFunc(s.pods(tc.name+"-"), func(p corev1.Pod) bool {
					return !slices.ContainsFunc(before, func(q corev1.Pod) bool { return p.UID == q.UID })
				})
				return len(left) == 0, fmt.Sprintf("%d", len(left))
			})
			s.running(tc.name+"-", len(before))
			s.placed("deployment-" + tc.name + "-")
			s.noneRejected()
		})
	}
}

// A Deployment whose labels request it starts as a whole.
func TestADeploymentThatIsToStartAsAWholeDoes(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.apply("deployment-all-or-nothing.yaml")
	s.refused("deployment-ring-", "NeverFits", "needs 3 pods", "could hold 2")
	s.noneOnNodes("ring-")
	s.nodes("late", 1, "8")
	s.running("ring-", 3)
	s.placed("deployment-ring-")
}

// State 4 of the lessons of earlier systems: pods are
// not pinned to where pods of their names once ran.
func TestAStatefulSetComesBackElsewhere(t *testing.T) {
	cases := map[string]struct {
		apply func(*story)
		name  string
		needs string
	}{
		"all at once":         {apply: func(s *story) { s.apply("statefulset.yaml") }, name: "ranks", needs: "needs 3 pods"},
		"one after the other": {apply: func(s *story) { s.apply("statefulset-in-order.yaml") }, name: "steps", needs: "needs 1 pod"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := tell(t)
			s.nodes("n", 3, "8")
			tc.apply(s)
			s.running(tc.name+"-", 3)
			former := slices.Sorted(maps.Values(s.onNodes(tc.name + "-")))
			s.scale("statefulset/"+tc.name, 0)
			s.none(tc.name + "-")
			s.applyText(job("others", 3, "8"))
			s.running("others-", 3)
			s.scale("statefulset/"+tc.name, 3)
			s.refused("statefulset-"+tc.name+"-", "NoRoom", tc.needs, "room for 0")
			s.noneOnNodes(tc.name + "-")
			s.nodes("late", 3, "8")
			s.running(tc.name+"-", 3)
			s.placed("statefulset-" + tc.name + "-")
			for pod, node := range s.onNodes(tc.name + "-") {
				if slices.Contains(former, node) {
					t.Errorf("pod %s is on %s, which others fill", pod, node)
				}
			}
			s.noneRejected()
		})
	}
}

// A Job that is created suspended requests nothing.
func TestASuspendedJobStartsWhenItIsResumed(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2, "8")
	s.apply("suspended-job.yaml")
	suspend := func(yes bool) {
		s.kubectl("patch", "job", "paused", "-n", s.ns, "-p", fmt.Sprintf(`{"spec":{"suspend":%t}}`, yes))
	}
	s.applyText(job("meanwhile", 2, "8"))
	s.running("meanwhile-", 2)
	suspend(false)
	s.refused("job-paused-", "NoRoom", "needs 2 pods", "room for 0")
	s.kubectl("delete", "job", "meanwhile", "-n", s.ns)
	s.running("paused-", 2)
	suspend(true)
	s.none("paused-")
	s.refused("job-paused-", "Suspended", "Job/paused is suspended")
	s.applyText(job("between", 2, "8"))
	s.running("between-", 2)
	suspend(false)
	s.refused("job-paused-", "NoRoom", "needs 2 pods", "room for 0")
	s.kubectl("delete", "job", "between", "-n", s.ns)
	s.running("paused-", 2)
	s.placed("job-paused-")
}
