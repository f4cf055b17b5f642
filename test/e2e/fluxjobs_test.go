package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/stack"
)

// The kinds of queues, for kubectl.
const (
	queues   = "queues.fluence.flux-framework.org"
	fluxJobs = "fluxjobs.fluence.flux-framework.org"
)

// queue makes a queue with this spec, and deletes it after the story.
func (s *story) queue(name, spec string) {
	s.Helper()
	s.applyText("apiVersion: fluence.flux-framework.org/v1alpha1\nkind: Queue\nmetadata: {name: " + name + "}\nspec: {namespaceSelector: {}, " + spec + "}\n")
	s.dropQueue(name)
}

// dropQueue deletes a queue after the story, when its jobs are gone.
func (s *story) dropQueue(name string) {
	s.Cleanup(func() {
		if out, _, err := s.Kubectl(context.WithoutCancel(s.Context()), "delete", queues, name, "--ignore-not-found"); err != nil {
			s.Errorf("delete the queue %s: %v\n%s", name, err, out)
		}
	})
}

// queued is a Job in a queue whose pods take a node of 8 CPUs each, for this time. Its pods end at once when they are deleted.
func queued(queue, name string, n int, duration string) string {
	return strings.Replace(lasting(name, n, duration), "metadata: {name: "+name+"}", "metadata: {name: "+name+", labels: {"+v1alpha1.QueueLabel+": "+queue+"}}", 1)
}

// readFluxJob returns the FluxJob of a Job or pod, and nil if there is none.
func (s *story) readFluxJob(ctx context.Context, prefix string) (*v1alpha1.FluxJob, error) {
	var list v1alpha1.FluxJobList
	out, _, err := s.Kubectl(ctx, "get", fluxJobs, "-n", s.ns, "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &list)
	}
	if err != nil {
		return nil, fmt.Errorf("list FluxJobs: %w", err)
	}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, prefix) {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// fluxJob returns the FluxJob of a Job or pod, and nil if there is none, or if it cannot be read.
func (s *story) fluxJob(ctx context.Context, prefix string) *v1alpha1.FluxJob {
	s.Helper()
	j, err := s.readFluxJob(ctx, prefix)
	if err != nil {
		s.Log(err)
	}
	return j
}

// merge changes an object, such as job/solver, by a merge patch.
func (s *story) merge(object, patch string) {
	s.Helper()
	s.kubectl("patch", object, "-n", s.ns, "--type=merge", "-p", patch)
}

// waitsInQueue waits until the FluxJob of a Job waits for a reason, with these words.
func (s *story) waitsInQueue(job, reason string, words ...string) {
	s.Helper()
	s.eventually("the Job "+job+" waits in its queue", func(ctx context.Context) (bool, string) {
		j := s.fluxJob(ctx, "job-"+job+"-")
		if j == nil {
			return false, "no FluxJob"
		}
		c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionAdmitted)
		if c == nil {
			return false, "no condition"
		}
		ok := c.Status == metav1.ConditionFalse && c.Reason == reason && j.Status.Allocation == nil
		for _, w := range words {
			ok = ok && strings.Contains(c.Message, w)
		}
		return ok, fmt.Sprintf("%s: %s: %s", j.Status.Phase, c.Reason, c.Message)
	})
}

// allocated returns how many pods the allocation of a FluxJob has on each node.
func allocated(j *v1alpha1.FluxJob) (map[string]int, error) {
	on := map[string]int{}
	if j == nil || j.Status.Allocation == nil {
		return on, nil
	}
	nodes, err := j.Status.Allocation.Nodes()
	for _, n := range nodes {
		on[n]++
	}
	return on, err
}

// podsByNode returns how many pods are on each node.
func (s *story) podsByNode(prefix string) map[string]int {
	s.Helper()
	on := map[string]int{}
	for _, node := range s.onNodes(prefix) {
		on[node]++
	}
	return on
}

// A Job that names a queue is suspended, has nodes before it has pods, and its pods are bound to just these nodes.
func TestAJobOfAQueueStartsWhereItsFluxJobSays(t *testing.T) {
	s := tell(t)
	s.nodes("n", 3, "8")
	s.apply("queue.yaml")
	s.dropQueue("batch")
	s.apply("job-in-a-queue.yaml")
	s.running("in-a-queue-", 4)
	j := s.fluxJob(t.Context(), "job-in-a-queue-")
	want, err := allocated(j)
	if err != nil || len(want) == 0 {
		t.Fatalf("the FluxJob is %+v, %v; want one with an allocation", j, err)
	}
	if got := s.podsByNode("in-a-queue-"); !maps.Equal(got, want) {
		t.Errorf("the pods are on %v, the allocation is %v", got, want)
	}
	job, err := s.Client().BatchV1().Jobs(s.ns).Get(t.Context(), "in-a-queue", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d := job.Spec.ActiveDeadlineSeconds; d == nil || *d != 30*60 {
		t.Errorf("its deadline is %v, want 30 minutes", d)
	}
	if j.Status.Phase != v1alpha1.Running || !meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionReleased) {
		t.Errorf("the FluxJob is %s with %+v, want Running and released", j.Status.Phase, j.Status.Conditions)
	}
	s.kubectl("delete", "job", "in-a-queue", "-n", s.ns)
	s.eventually("the FluxJob goes with its Job", func(ctx context.Context) (bool, string) {
		j, err := s.readFluxJob(ctx, "job-in-a-queue-")
		return j == nil && err == nil, fmt.Sprintf("it is there, or cannot be read: %v", err)
	})
}

// The first job is promised the end of what runs. A shorter one runs before it, a longer one waits, and each starts in its turn. An
// earlier end is the first one's too.
func TestJobsOfAQueueStartInTheirOrder(t *testing.T) {
	s := tell(t)
	s.queue("easy", "policy: easy, grace: 0s")
	s.nodes("n", 2, "8")
	s.applyText(queued("easy", "running", 1, "10m"))
	s.running("running-", 1)
	s.applyText(queued("easy", "large", 2, "10m"))
	s.eventually("the first job is promised room", func(ctx context.Context) (bool, string) {
		j := s.fluxJob(ctx, "job-large-")
		if j == nil || j.Status.Promise == nil {
			return false, fmt.Sprintf("%+v", j)
		}
		return j.Status.Promise.Nodes == 2, fmt.Sprintf("%+v", j.Status.Promise)
	})
	s.applyText(queued("easy", "longer", 1, "30m"))
	s.waitsInQueue("longer", v1alpha1.ReasonNoRoom)
	s.applyText(queued("easy", "short", 1, "5s"))
	s.running("short-", 1)
	s.waitsInQueue("large", v1alpha1.ReasonPromised)
	s.limit("running", "1s")
	s.running("large-", 2)
	s.waitsInQueue("longer", v1alpha1.ReasonPromised)
	s.kubectl("delete", "job", "large", "-n", s.ns)
	s.running("longer-", 1)
}

// Without its turn a job waits although there is room, if the queue lets nobody pass, and each start is in the order of creation.
func TestAQueueWithoutBackfillLetsNobodyPass(t *testing.T) {
	s := tell(t)
	s.queue("strict", "policy: fcfs")
	s.nodes("n", 2, "8")
	s.applyText(queued("strict", "running", 1, "1h"))
	s.running("running-", 1)
	s.applyText(queued("strict", "large", 2, "1h"))
	s.waitsInQueue("large", v1alpha1.ReasonNoRoom)
	s.applyText(queued("strict", "small", 1, "1m"))
	s.waitsInQueue("small", v1alpha1.ReasonNotItsTurn)
	s.noneOnNodes("small-")
	s.kubectl("delete", "job", "running", "-n", s.ns)
	s.running("large-", 2)
	s.kubectl("delete", "job", "large", "-n", s.ns)
	s.running("small-", 1)
}

// A held job and a stopped queue start nothing, and limits hold; each says so.
func TestHeldJobsStoppedQueuesAndLimits(t *testing.T) {
	s := tell(t)
	s.queue("limited", "limits: {running: 1, duration: 2h}, started: false")
	s.nodes("n", 3, "8")
	s.applyText(queued("limited", "first", 1, "1h"))
	s.waitsInQueue("first", v1alpha1.ReasonQueueStopped)
	first := s.fluxJob(t.Context(), "job-first-").Name
	s.merge(fluxJobs+"/"+first, `{"spec":{"held":true}}`)
	s.merge(queues+"/limited", `{"spec":{"started":true}}`)
	s.waitsInQueue("first", v1alpha1.ReasonHeld)
	s.applyText(queued("limited", "second", 1, "1h"))
	s.running("second-", 1)
	s.merge(fluxJobs+"/"+first, `{"spec":{"held":false}}`)
	s.waitsInQueue("first", v1alpha1.ReasonLimitReached, "spec.limits.running of Queue limited is 1")
	s.applyText(queued("limited", "long", 1, "3h"))
	s.eventually("a job that is too long is refused", func(ctx context.Context) (bool, string) {
		j := s.fluxJob(ctx, "job-long-")
		if j == nil {
			return false, "no FluxJob"
		}
		c := meta.FindStatusCondition(j.Status.Conditions, v1alpha1.ConditionValid)
		return c != nil && c.Reason == v1alpha1.ReasonDurationOverLimit, fmt.Sprintf("%+v", j.Status.Conditions)
	})
	s.kubectl("delete", "job", "second", "-n", s.ns)
	s.running("first-", 1)
	s.noneOnNodes("long-")
}

// A job that has run for its time is ended, and its room goes to the next. A pod in a queue is ended alike.
func TestAJobOfAQueueEndsAfterItsTime(t *testing.T) {
	s := tell(t)
	s.queue("timed", "policy: easy, grace: 0s")
	s.nodes("n", 1, "8")
	s.applyText(queued("timed", "first", 1, "5s"))
	s.running("first-", 1)
	s.applyText(queued("timed", "second", 1, "1h"))
	s.running("second-", 1)
	s.eventually("the first one says how it ended", func(ctx context.Context) (bool, string) {
		j := s.fluxJob(ctx, "job-first-")
		return j != nil && j.Status.Phase == v1alpha1.Finished && j.Status.Result == v1alpha1.WalltimeExceeded, fmt.Sprintf("%+v", j)
	})
	s.kubectl("delete", "job", "second", "-n", s.ns)
	pod := strings.Replace(lonePod("alone", "fluence"), "metadata: {name: alone}",
		"metadata: {name: alone, labels: {"+v1alpha1.QueueLabel+": timed}, annotations: {"+group.DurationAnnotation+": 5s}}", 1)
	s.applyText(pod)
	s.eventually("the pod has run and is ended", func(ctx context.Context) (bool, string) {
		pods := s.pods("alone")
		return len(pods) == 1 && pods[0].Spec.NodeName != "" && pods[0].Status.Phase == "Failed", fmt.Sprintf("%+v", pods)
	})
}

// Pods that keep apart are given a node each. A job whose pods cannot start without a volume gives its room back, and says why.
func TestTheRoomOfAJobIsSuchThatItsPodsCanStart(t *testing.T) {
	s := tell(t)
	s.queue("rules", "policy: easy")
	s.nodes("n", 3, "8")
	const job = `apiVersion: batch/v1
kind: Job
metadata: {name: %s, labels: {` + v1alpha1.QueueLabel + `: rules}}
spec:
  parallelism: 3
  completions: 3
  template:
    metadata: {labels: {app: x}}
    spec:
      schedulerName: fluence
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: busybox, resources: {requests: {cpu: "1"}}}]
      %s
`
	s.applyText(fmt.Sprintf(job, "apart", "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}}]}}"))
	s.running("apart-", 3)
	if got := s.podsByNode("apart-"); len(got) != 3 {
		t.Errorf("the pods are on %v, want one on each node", got)
	}
	s.applyText(fmt.Sprintf(job, "zones", "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: example.com/zone, labelSelector: {matchLabels: {app: x}}}]}}"))
	s.waitsInQueue("zones", v1alpha1.ReasonInvalidJobspec, "podAntiAffinity", "example.com/zone")
	s.applyText(fmt.Sprintf(job, "lacks", "volumes: [{name: data, persistentVolumeClaim: {claimName: lost}}]"))
	s.within(2*patience, "the Job that lacks a volume is requeued", time.Second, func(ctx context.Context) (bool, string) {
		j := s.fluxJob(ctx, "job-lacks-")
		return j != nil && j.Status.Requeues > 0, fmt.Sprintf("%+v", j)
	})
	s.eventually("an event of the Job says why", func(ctx context.Context) (bool, string) {
		out, _, err := s.Kubectl(ctx, "get", "events", "-n", s.ns)
		return err == nil && strings.Contains(out, v1alpha1.ReasonRequeued) && strings.Contains(out, `persistentvolumeclaim "lost" not found`), out
	})
}

// A queue that does not exist, or that the namespace may not use, keeps its jobs and says so.
func TestAJobWithoutItsQueueWaits(t *testing.T) {
	s := tell(t)
	s.nodes("n", 1, "8")
	s.applyText(queued("nowhere", "lost", 1, "1h"))
	s.waitsInQueue("lost", v1alpha1.ReasonNoQueue, "nowhere")
	s.noneOnNodes("lost-")
	s.queue("nowhere", "namespaceSelector: {matchLabels: {team: other}}")
	s.waitsInQueue("lost", v1alpha1.ReasonNotAllowed)
	s.kubectl("label", "namespace", s.ns, "team=other")
	s.running("lost-", 1)
}

// The processes of Fluence are killed while jobs wait and run. Each job starts once, in its order.
func TestQueuesOutliveTheProcesses(t *testing.T) {
	s := tell(t)
	s.queue("lasts", "policy: easy")
	s.nodes("n", 2, "8")
	s.applyText(queued("lasts", "running", 2, "1h"))
	s.running("running-", 2)
	before := s.pods("running-")
	s.applyText(queued("lasts", "next", 2, "1h"))
	s.waitsInQueue("next", v1alpha1.ReasonPromised)
	at := s.fluxJob(t.Context(), "job-next-").Status.Promise.At
	for _, process := range []string{stack.Sidecar, stack.Controller, stack.Scheduler} {
		s.kill(process)
		if process == stack.Scheduler {
			s.dropLease()
		}
		s.start(process)
		if process == stack.Scheduler {
			s.leads(process)
		}
		// What was written before says nothing of the new process: a new job does.
		after := "after-" + process
		s.applyText(queued("lasts", after, 1, "1m"))
		s.waitsInQueue(after, v1alpha1.ReasonNoRoom)
		s.waitsInQueue("next", v1alpha1.ReasonPromised)
		if now := s.fluxJob(t.Context(), "job-next-").Status.Promise.At; at.Before(&now) {
			t.Errorf("after the end of %s it is promised room from %s, before from %s", process, now, at)
		}
	}
	s.noneOnNodes("next-")
	s.noneOnNodes("after-")
	s.untouched(before)
	for _, process := range []string{stack.Sidecar, stack.Controller, stack.Scheduler} {
		s.kill(process)
	}
	s.kubectl("delete", "job", "running", "-n", s.ns)
	s.dropLease()
	for _, process := range []string{stack.Sidecar, stack.Controller, stack.Scheduler} {
		s.start(process)
	}
	s.running("next-", 2)
	want, err := allocated(s.fluxJob(t.Context(), "job-next-"))
	if got := s.podsByNode("next-"); err != nil || !maps.Equal(got, want) {
		t.Errorf("the pods are on %v, the allocation is %v, %v", got, want, err)
	}
}

// A Job that was created while the webhook was away is suspended by the controller, and its pods wait for its turn. Other Jobs are
// left alone.
func TestAJobSlipsPastTheWebhookAndWaits(t *testing.T) {
	s := tell(t)
	s.queue("guarded", "policy: fcfs")
	s.nodes("n", 2, "8")
	s.applyText(queued("guarded", "first", 2, "1h"))
	s.running("first-", 2)
	s.kill(stack.Controller)
	s.applyText(queued("guarded", "second", 1, "1h"))
	s.eventually("it has a pod", func(context.Context) (bool, string) { return len(s.pods("second-")) == 1, "none" })
	s.start(stack.Controller)
	s.waitsInQueue("second", v1alpha1.ReasonNoRoom)
	s.suspendedIs("second", true)
	s.noneOnNodes("second-")
	s.merge("job/second", `{"spec":{"suspend":false}}`)
	s.suspendedIs("second", true)
	s.kubectl("delete", "job", "first", "-n", s.ns)
	s.running("second-", 1)
	s.suspendedIs("second", false)
	// Its user takes it off its nodes, and lets it go again.
	s.merge("job/second", `{"spec":{"suspend":true}}`)
	s.podsGone("second-")
	s.waitsInQueue("second", v1alpha1.ReasonHeld)
	s.merge("job/second", `{"spec":{"suspend":false}}`)
	s.running("second-", 1)
}

// suspendedIs waits until a Job is suspended, or is not.
func (s *story) suspendedIs(job string, want bool) {
	s.Helper()
	s.eventually("the Job "+job+" is suspended or not", func(ctx context.Context) (bool, string) {
		j, err := s.Client().BatchV1().Jobs(s.ns).Get(ctx, job, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		is := j.Spec.Suspend != nil && *j.Spec.Suspend
		return is == want, fmt.Sprintf("suspend is %t", is)
	})
}

// All Jobs that wait run after the way out, and nothing of the queue is left.
func TestTheWayOutOfQueues(t *testing.T) {
	s := tell(t)
	s.queue("closing", "started: false")
	s.nodes("n", 3, "8")
	names := []string{"one", "two", "three"}
	for _, name := range names {
		s.applyText(queued("closing", name, 1, "1h"))
		s.waitsInQueue(name, v1alpha1.ReasonQueueStopped)
	}
	bin, err := stack.Build(t.Context(), s.Output())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, stack.KubectlPlugin), "release", "--all", "-n", s.ns, "--kubeconfig", s.Kubeconfig()).CombinedOutput()
	if err != nil {
		t.Errorf("kubectl fluence release --all: %v\n%s", err, out)
	}
	for _, name := range names {
		s.running(name+"-", 1)
	}
	jobs, err := s.Client().BatchV1().Jobs(s.ns).List(t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.QueueLabel + "!="})
	if err != nil || len(jobs.Items) > 0 {
		t.Errorf("%d Jobs still name a queue, %v", len(jobs.Items), err)
	}
}
