package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/cluster/kubelet"
)

// limit sets the time limit of the FluxJob of a Job, as a user does.
func (s *story) limit(job, duration string) {
	s.Helper()
	s.merge(fluxJobs+"/"+s.fluxJob(s.Context(), "job-"+job+"-").Name, `{"spec":{"duration":"`+duration+`"}}`)
}

// hold holds the FluxJob of a Job, or releases it.
func (s *story) hold(job string, held bool) {
	s.Helper()
	s.merge(fluxJobs+"/"+s.fluxJob(s.Context(), "job-"+job+"-").Name, fmt.Sprintf(`{"spec":{"held":%t}}`, held))
}

// promisedIn waits until the FluxJob of a Job is promised room after about some time from now.
func (s *story) promisedIn(job string, after time.Duration) {
	s.Helper()
	s.untilFluxJob("job-"+job+"-", "is promised room in "+after.String(), func(j *v1alpha1.FluxJob) bool {
		return j.Status.Promise != nil && (time.Until(j.Status.Promise.At.Time)-after).Abs() < 3*time.Minute
	})
}

// deadline waits until the Job first has a deadline.
func (s *story) deadline(seconds int64) {
	s.Helper()
	const job = "first"
	s.eventually(fmt.Sprintf("the deadline of %s is %d s", job, seconds), func(ctx context.Context) (bool, string) {
		j, err := s.Client().BatchV1().Jobs(s.ns).Get(ctx, job, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		d := j.Spec.ActiveDeadlineSeconds
		return d != nil && *d == seconds, fmt.Sprint(d)
	})
}

// The time limit of a job that runs is edited. Its promised room moves with it, and its Job's deadline, but a longer one does not count
// if that delays others. A pod that is made again gets its own node, and nobody else does. What has ended frees its room, also while
// the Job is still there.
func TestTimeLimitsAreEditedWhileJobsRun(t *testing.T) {
	s := tell(t)
	s.queue("edited", "policy: easy, grace: 0s")
	s.nodes("n", 3, "8")
	s.applyText(queued("edited", "first", 3, "1h"))
	s.running("first-", 3)
	brief := strings.Replace(queued("edited", "next", 3, "10m"), "annotations: {", "annotations: {"+kubelet.RunFor+": 1s, ", 1)
	s.applyText(brief)
	s.promisedIn("next", time.Hour)
	s.deadline(3600)

	// One of three pods is deleted.
	lost := s.pods("first-")[0]
	s.lose(lost.Name)
	s.running("first-", 3)
	want, err := allocated(s.fluxJob(t.Context(), "job-first-"))
	if got := s.podsByNode("first-"); err != nil || !maps.Equal(got, want) {
		t.Errorf("after one was deleted the pods are on %v, the allocation is %v, %v", got, want, err)
	}
	s.promisedIn("next", time.Hour)
	s.noneOnNodes("next-")

	s.limit("first", "30m")
	s.deadline(1800)
	s.promisedIn("next", 30*time.Minute)
	s.limit("first", "50m")
	s.untilFluxJob("job-first-", "may not take longer", func(j *v1alpha1.FluxJob) bool {
		c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionValid)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonWouldDelay && strings.Contains(c.Message, s.ns+"/next")
	})
	s.deadline(1800)
	s.promisedIn("next", 30*time.Minute)

	// Nobody is promised anything while the next one is held.
	s.hold("next", true)
	s.waitsInQueue("next", v1alpha1.ReasonHeld)
	s.limit("first", "2h")
	s.deadline(7200)
	s.hold("next", false)
	s.promisedIn("next", 2*time.Hour)

	s.applyText(queued("edited", "last", 1, "1h"))
	s.limit("first", "1s")
	s.untilFluxJob("job-first-", "has ended", func(j *v1alpha1.FluxJob) bool { return j.Status.Result == v1alpha1.WalltimeExceeded })
	s.untilFluxJob("job-next-", "has ended", func(j *v1alpha1.FluxJob) bool { return j.Status.Result == v1alpha1.Succeeded })
	s.running("last-", 1)
	if jobs, err := s.Client().BatchV1().Jobs(s.ns).List(t.Context(), metav1.ListOptions{}); err != nil || len(jobs.Items) != 3 {
		t.Errorf("%d Jobs, %v; want all three, as nobody has deleted one", len(jobs.Items), err)
	}
}

// setParallelism sets the parallelism of a Job, and waits until it has so many pods.
func (s *story) setParallelism(job string, n int) {
	s.Helper()
	s.merge("job/"+job, fmt.Sprintf(`{"spec":{"parallelism":%d}}`, n))
	s.eventually(fmt.Sprintf("%s has %d pods", job, n), func(context.Context) (bool, string) {
		pods := s.pods(job + "-")
		return len(pods) == n, fmt.Sprintf("%d", len(pods))
	})
}

// said waits until a pod that has no node says something.
func (s *story) said(prefix, words string) {
	s.Helper()
	s.eventually("a pod "+prefix+"* says "+words, func(context.Context) (bool, string) {
		var got []string
		for _, p := range s.pods(prefix) {
			for _, c := range p.Status.Conditions {
				if c.Type != corev1.PodScheduled || p.Spec.NodeName != "" {
					continue
				}
				if strings.Contains(c.Message, words) {
					return true, ""
				}
				got = append(got, p.Name+": "+c.Message)
			}
		}
		return false, strings.Join(got, "\n")
	})
}

// A Job is made larger and smaller while it runs. It has no more pods on nodes at a time than it has room for. Pods without a Job wait
// in the same queue, also one with another gate, which stays until its owner removes it. What does not end is in no queue, at any size.
func TestWorkInQueuesGrowsAndShrinks(t *testing.T) {
	s := tell(t)
	s.queue("sized", `policy: fcfs, limits: {requests: {cpu: "16"}}`)
	s.nodes("n", 4, "8")
	s.applyText(strings.Replace(queued("sized", "elastic", 2, "1h"), "completions: 2", "completions: 8", 1))
	s.running("elastic-", 2)
	s.setParallelism("elastic", 4)
	s.said("elastic-", "was admitted to Queue sized with 2 pods, and has 2")
	if on := s.onNodes("elastic-"); len(on) != 2 {
		t.Errorf("these have nodes: %v, want two", on)
	}
	alone := func(name, gates string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: ` + name + `, labels: {` + v1alpha1.QueueLabel + `: sized}},
			spec: {schedulerName: fluence, terminationGracePeriodSeconds: 0, ` + gates + `containers: [{name: c, image: none, resources: {requests: {cpu: "8"}}}]}}`
	}
	s.applyText(alone("alone", ""))
	s.applyText(alone("gated", "schedulingGates: [{name: example.com/own}], "))
	s.untilFluxJob("pod-alone-", "waits", func(j *v1alpha1.FluxJob) bool {
		c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted)
		return c != nil && c.Reason == v1alpha1.ReasonLimitReached
	})
	s.setParallelism("elastic", 1)
	s.running("elastic-", 1)
	s.setParallelism("elastic", 2)
	s.running("elastic-", 2)
	s.kubectl("delete", "job", "elastic", "-n", s.ns)
	s.running("alone", 1)
	if gated := s.pods("gated"); len(gated) != 1 || gated[0].Spec.NodeName != "" || gated[0].Spec.SchedulingGates[0].Name != "example.com/own" {
		t.Errorf("the pod with a gate of its own is %+v", gated)
	}
	s.merge("pod/gated", `{"spec":{"schedulingGates":null}}`)
	s.running("gated", 1)

	s.applyText(strings.Replace(deployment("endless", 2, "1"), "\n    metadata: {labels: {", "\n    metadata: {labels: {"+v1alpha1.QueueLabel+": sized, ", 1))
	s.refused("deployment-endless-", reason.NotAllowed, "a Deployment does not end")
	s.kubectl("scale", "deployment/endless", "-n", s.ns, "--replicas=3")
	s.eventually("a third pod", func(context.Context) (bool, string) {
		n := len(s.pods("endless-"))
		return n == 3, fmt.Sprintf("%d", n)
	})
	s.noneOnNodes("endless-")
	// A Job of another controller is left alone, and says so.
	s.applyText(strings.Replace(queued("sized", "managed", 1, "1h"), "\nspec:\n", "\nspec:\n  managedBy: example.com/own\n", 1))
	s.event(v1alpha1.ReasonNotAllowed, `spec.managedBy: "example.com/own"`)
	s.suspendedIs("managed", false)
	if j := s.fluxJob(t.Context(), "job-managed-"); j != nil {
		t.Errorf("it has the FluxJob %+v", j)
	}
	s.kubectl("scale", "deployment/endless", "-n", s.ns, "--replicas=0")
	s.podsGone("endless-")
}
