package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/flux-k8s/fluence/test/stack"
)

// Two Jobs of 4 have all nodes. A Job of 8 with a higher priority evicts both as wholes, and starts. They are
// resumed, wait for room, and run again when the other one is gone. No pod counts as failed, and a Job of the same
// priority evicts nobody.
func TestAJobOfHighPriorityEvictsTwoOthers(t *testing.T) {
	s := tell(t)
	s.nodes("n", 8, "8")
	victims := []string{"first", "second"}
	for _, name := range victims {
		s.applyText(job(name, 4, "8"))
		s.running(name+"-", 4)
	}
	s.applyText(job("equal", 1, "8"))
	s.refused("job-equal-", "NoRoom", "room for 0")
	s.apply("preemption.yaml")
	s.discard("priorityclass/production")
	s.running("production-", 8)
	preemptor := "4 pods evicted for group " + s.group(t.Context(), "job-production-").Namespace + "/" + s.group(t.Context(), "job-production-").Name + " (priority 1000, this one has 0)"
	for _, name := range victims {
		s.condition("job-"+name+"-", "Preempted", metav1.ConditionFalse, "Preempted", preemptor)
		s.refused("job-"+name+"-", "NoRoom", "needs 4 pods")
		g := s.group(t.Context(), "job-"+name+"-")
		s.eventually(name+" tells of its eviction", func(context.Context) (bool, string) {
			text := s.kubectl("describe", "podgroups.scheduling.x-k8s.io", g.Name, "-n", s.ns)
			for _, want := range []string{"Warning  Preempted", preemptor, "Resumed", "Job " + name + " is resumed"} {
				if !strings.Contains(text, want) {
					return false, fmt.Sprintf("no %q in\n%s", want, text)
				}
			}
			return true, ""
		})
	}
	s.noneOnNodes("equal-")
	s.kubectl("delete", "job", "equal", "production", "-n", s.ns)
	for _, name := range victims {
		s.running(name+"-", 4)
		if failed := s.kubectl("get", "job", name, "-n", s.ns, "-o", "jsonpath={.status.failed}/{.spec.suspend}/"); !strings.HasPrefix(failed, "/false/") {
			t.Errorf("failed pods, suspended and annotations of Job %s: %s", name, failed)
		}
	}
}

// The scheduler is killed when it has deleted half of a group's pods. The next one deletes the rest, and
// the group of the higher priority starts. Nobody else ends.
func TestTheNextSchedulerEndsAnEviction(t *testing.T) {
	s := tell(t)
	proxy := s.proxied()
	s.nodes("n", 2, "4")
	s.applyText(crew("old", 4))
	s.running("old-", 4)
	s.applyText(crew("new", 4))
	s.running("new-", 4)
	proxy.Refuse(func(r *request.RequestInfo) bool {
		return r.Verb == "delete" && r.Resource == "pods" && r.Namespace == s.ns && (strings.HasSuffix(r.Name, "-2") || strings.HasSuffix(r.Name, "-3"))
	})
	s.applyText(strings.ReplaceAll(crew("high", 4), "spec:\n", "spec:\n  priorityClassName: "+s.priorities(1000)(1000)+"\n"))
	s.eventually("half of a group is evicted", func(context.Context) (bool, string) {
		n := len(s.pods("new-"))
		return n == 2, fmt.Sprintf("%d are left", n)
	})
	s.kill(stack.Scheduler)
	proxy.Refuse(nil)
	s.start(stack.Scheduler)
	s.running("high-", 4)
	if left := s.pods("new-"); len(left) > 0 {
		t.Errorf("%d pods of the victim are left", len(left))
	}
	s.running("old-", 4)
}
