package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
)

// ending gives a Job a deadline, which Kubernetes keeps.
func ending(job, seconds string) string {
	return strings.Replace(job, "\nspec:\n", "\nspec:\n  activeDeadlineSeconds: "+seconds+"\n", 1)
}

// A job of a queue is promised a free node and one on which another job ends. Of the groups without a queue one of higher rank takes the
// free node, one of lower rank does not and says until when, one that ends before runs, and a late member of one that runs gets a node at
// once. Whatever moves the promise later is named: these, and a pod of another scheduler.
func TestPromisesOfQueuesAndGroupsWithoutOne(t *testing.T) {
	s := tell(t)
	s.queue("beside", "policy: easy, grace: 0s")
	s.nodes("n", 4, "8")
	class := s.patient(100)(100)
	s.applyText(onNode(queued("beside", "until-1", 1, "1h"), "n-1"))
	s.applyText(onNode(queued("beside", "until-2", 1, "2h"), "n-2"))
	s.running("until-", 2)
	s.applyText(ending(lasting("older", 1, ""), "10800"))
	s.running("older-", 1)
	free := "n-0"
	for _, node := range s.onNodes("older-") {
		if node == free {
			free = "n-3"
		}
	}
	s.applyText(queued("beside", "large", 2, "10m"))
	s.promisedIn("large", time.Hour)

	s.applyText(lasting("lower", 1, ""))
	s.refused("job-lower-", "NoRoom", "room for 1 more is promised to Job "+s.ns+"/large from ")
	s.noneOnNodes("lower-")
	s.applyText(ending(lasting("brief", 1, ""), "600"))
	s.running("brief-", 1)
	s.promisedIn("large", time.Hour)
	s.kubectl("delete", "job", "brief", "-n", s.ns)
	s.podsGone("brief-")

	later := func(what string, why ...string) {
		t.Helper()
		s.untilFluxJob("job-large-", "has a later promise: "+what, func(j *v1alpha1.FluxJob) bool {
			p := j.Status.Promise
			ok := p != nil && time.Until(p.At.Time) > 110*time.Minute
			for _, w := range why {
				ok = ok && strings.Contains(p.Why, w)
			}
			return ok
		})
	}
	again := func() {
		t.Helper()
		s.untilFluxJob("job-large-", "has its promise again", func(j *v1alpha1.FluxJob) bool {
			return j.Status.Promise != nil && time.Until(j.Status.Promise.At.Time) < time.Hour && j.Status.Promise.Why == ""
		})
		s.noneOnNodes("lower-")
	}
	s.applyText(podOn("foreign", free, "", ""))
	later("another scheduler", "foreign", free)
	s.lose("foreign")
	again()
	s.applyText(ending(prioritized(lasting("urgent", 1, ""), class), "7200"))
	s.running("urgent-", 1)
	later("a higher rank", "urgent-", free)
	s.kubectl("delete", "job", "urgent", "-n", s.ns)
	again()
	s.kubectl("delete", "job", "older", "-n", s.ns)
	s.running("large-", 2)
}
