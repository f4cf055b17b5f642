package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/test/stack"
)

// Who may edit a namespace holds, releases and cancels its jobs. Who may only view it sees them.
func TestUsersHoldReleaseAndCancel(t *testing.T) {
	s := tell(t)
	s.queue("by-hand", "policy: fcfs")
	s.nodes("n", 1, "8")
	s.kubectl("apply", "-f", filepath.Join(filepath.Dir(filepath.Dir(s.Example(""))), "manifests", "viewer.yaml"))
	for user, role := range map[string]string{"editor": "edit", "viewer": "view"} {
		s.kubectl("create", "rolebinding", user, "-n", s.ns, "--clusterrole="+role, "--user="+user)
	}
	bin, err := stack.Build(t.Context(), s.Output())
	if err != nil {
		t.Fatal(err)
	}
	fluence := func(ctx context.Context, user, command string) (string, error) {
		args := append(strings.Fields(command), "-n", s.ns, "--as", user, "--kubeconfig", s.Kubeconfig())
		out, err := exec.CommandContext(ctx, filepath.Join(bin, stack.KubectlPlugin), args...).CombinedOutput()
		return string(out), err
	}
	says := func(user, command, want string, may bool) {
		t.Helper()
		out, err := fluence(t.Context(), user, command)
		if may != (err == nil) || !strings.Contains(out, want) {
			t.Errorf("%s: kubectl fluence %s: %v\n%s\nwant %q", user, command, err, out, want)
		}
	}
	s.applyText(queued("by-hand", "first", 1, "1h"))
	s.running("first-", 1)
	s.applyText(queued("by-hand", "second", 1, "1h"))
	s.waitsInQueue("second", v1alpha1.ReasonNoRoom)

	s.eventually("the roles are there", func(ctx context.Context) (bool, string) {
		out, err := fluence(ctx, "viewer", "jobs")
		return err == nil && strings.Contains(out, "Job/second"), out
	})
	says("viewer", "hold second", "you may not patch fluxjobs", false)
	says("viewer", "cancel second", "you may not delete jobs.batch", false)
	says("stranger", "jobs", "you may not list fluxjobs", false)
	says("editor", "hold first", "has started", false)
	says("editor", "hold second", "job.batch/second held", true)
	says("editor", "hold second", "is held already", true)
	s.waitsInQueue("second", v1alpha1.ReasonHeld)
	says("editor", "cancel first", "job.batch/first cancelled", true)
	s.podsGone("first-")
	s.waitsInQueue("second", v1alpha1.ReasonHeld)
	says("editor", "release second", "job.batch/second released", true)
	s.running("second-", 1)
	says("editor", "release second", "is not held", true)
	says("viewer", "why second", "in queue by-hand: Running", true)
	says("editor", "cancel "+s.fluxJob(t.Context(), "job-second-").Name, "job.batch/second cancelled", true)
	s.podsGone("second-")
	says("editor", "cancel second", "no job of this name", false)
}

// The way out needs no controller. What users have suspended themselves stays so, and what runs goes on.
func TestTheWayOutWithoutTheController(t *testing.T) {
	s := tell(t)
	s.queue("leaving", "policy: fcfs")
	s.nodes("n", 3, "8")
	bin, err := stack.Build(t.Context(), s.Output())
	if err != nil {
		t.Fatal(err)
	}
	s.applyText(queued("leaving", "runs", 1, "1h"))
	s.running("runs-", 1)
	s.merge(queues+"/leaving", `{"spec":{"started":false}}`)
	s.applyText(strings.Replace(queued("leaving", "own", 1, "1h"), "\nspec:\n", "\nspec:\n  suspend: true\n", 1))
	s.applyText(queued("leaving", "waits", 1, "1h"))
	s.applyText(`{apiVersion: v1, kind: Pod, metadata: {name: alone, labels: {` + v1alpha1.QueueLabel + `: leaving}},
		spec: {schedulerName: fluence, terminationGracePeriodSeconds: 0, containers: [{name: c, image: none, resources: {requests: {cpu: "8"}}}]}}`)
	s.waitsInQueue("waits", v1alpha1.ReasonQueueStopped)
	s.eventually("the pod waits in the queue", func(ctx context.Context) (bool, string) {
		return s.fluxJob(ctx, "pod-alone-") != nil, "no FluxJob"
	})
	s.suspendedIs("own", true)

	s.kill(stack.Controller)
	started := sync.OnceFunc(func() { s.start(stack.Controller) })
	defer started()
	release := func() string {
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, stack.KubectlPlugin), "release", "--all", "-n", s.ns, "--kubeconfig", s.Kubeconfig()).CombinedOutput()
		if err != nil {
			t.Errorf("kubectl fluence release --all: %v", err)
		}
		return string(out)
	}
	out := release()
	for _, want := range []string{"job.batch/waits of " + s.ns + " let go", "pod/alone of " + s.ns + " let go", "1 Job, 1 pod let go, 2 FluxJobs removed", "1 Job of queues: suspended by their users"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	s.running("alone", 1)
	s.suspendedIs("waits", false)
	started() // it makes the PodGroup
	s.running("waits-", 1)
	s.running("runs-", 1)
	s.suspendedIs("own", true)
	if again := release(); !strings.Contains(again, "No queue keeps anything from starting") {
		t.Errorf("again: %s", again)
	}
}
