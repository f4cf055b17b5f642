package operators_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/cluster/tools"
)

// example applies an example of an operator's kind.
func (s *story) example(name string) {
	s.Helper()
	text, err := os.ReadFile(s.Example(filepath.Join("operators", name)))
	if err != nil {
		s.Fatal(err)
	}
	s.apply(string(text))
}

func TestTheExampleOfAJobSet(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4)
	s.example("jobset.yaml")
	s.groups(1, 8)
	s.running("training-", 8)
}

// A JobSet that restarts keeps its room, as it asks for, although others wait for it, and a quota delays its pods.
func TestAJobSetThatRestartsKeepsItsRoom(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4)
	s.example("jobset-keeps-its-room.yaml")
	old := s.running("long-training-", 8)
	s.example("jobset.yaml")
	s.groups(2, 8)
	s.refused(1, reason.NoRoom, "room for")
	s.eventually("the pods have run for a while, for so long their room may be kept", func(context.Context) (bool, string) {
		ran := time.Hour
		for _, p := range s.pods("long-training-") {
			ran = min(ran, time.Since(p.Status.StartTime.Time))
		}
		return ran >= 15*time.Second, ran.String()
	})
	s.kubectl("create", "quota", "few", "-n", s.ns, "--hard=pods=8")
	s.kubectl("annotate", "-n", s.ns, "pod", s.pods("long-training-workers-1-0-")[0].Name, "kwok.fluence.flux-framework.org/fail-after=0s")
	s.eventually("the pods of the JobSet have gone", func(context.Context) (bool, string) {
		n := len(s.pods("long-training-"))
		return n == 0, fmt.Sprintf("%d are there", n)
	})
	const elsewhere = "default"
	s.kubectl("run", "probe", "-n", elsewhere, "--image=registry.example.com/main",
		`--overrides={"spec": {"schedulerName": "fluence", "containers": [{"name": "probe", "image": "registry.example.com/main", "resources": {"requests": {"cpu": "4"}}}]}}`)
	s.eventually("a pod of another namespace is told that room is kept", func(context.Context) (bool, string) {
		text := s.kubectl("get", "pod", "probe", "-n", elsewhere, "-o", "jsonpath={.status.conditions[*].message}")
		return strings.Contains(text, "; the room of 8 pods that ended is kept until ") && strings.Contains(text, "Z for a group of another namespace (priority 0), which restarts"), text
	})
	s.kubectl("delete", "pod", "probe", "-n", elsewhere, "--wait=false")
	s.noneOnNodes("training-")
	s.kubectl("delete", "quota", "few", "-n", s.ns)
	s.replaced("long-training-", 8, old)
	s.noneOnNodes("training-")
	s.kubectl("delete", "-n", s.ns, "jobset", "long-training", "--wait=false")
	s.running("training-", 8)
}

// The workers do not wait for a driver of another scheduler, which has no node here.
func TestADriverOfAnotherSchedulerIsNotWaitedFor(t *testing.T) {
	s := tell(t)
	s.nodes("n", 2)
	s.example("jobset-driver-elsewhere.yaml")
	s.groups(1, 4)
	s.running("driven-workers-", 4)
	s.noneOnNodes("driven-driver-")
}

func TestTheExampleOfALeaderWorkerSet(t *testing.T) {
	s := tell(t)
	s.nodes("n", 4)
	s.example("leaderworkerset.yaml")
	s.groups(2, 4)
	s.running("vllm-", 8)
}

func TestTheExampleOfAnMPIJob(t *testing.T) {
	s := tell(t)
	s.nodes("n", 3)
	s.example("mpijob.yaml")
	s.groups(1, 5)
	s.running("solver-", 5)
}

// tellLong begins a story with the operators of long tests.
func tellLong(t *testing.T) *story {
	t.Helper()
	if !*long {
		t.Skip("it needs operators that take minutes to build: -operators.long")
	}
	return tell(t)
}

// Kueue admits Jobs by quota, and Fluence starts each of them as a whole.
func TestAJobThroughAQueueOfKueue(t *testing.T) {
	s := tellLong(t)
	s.nodes("n", 1)
	s.example("kueue.yaml")
	s.groups(1, 4)
	s.refused(1, reason.NeverFits, "could hold")
	s.noneOnNodes("")
	// The next Job has no quota, and so no pods.
	s.apply(fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: next, labels: {kueue.x-k8s.io/queue-name: users}}
spec: {suspend: true, parallelism: 4, completions: 4, template: {spec: %s}}
`, podSpec("4")))
	s.nodes("late", 1)
	s.running("queued-", 4)
	if got := s.pods("next-"); len(got) != 0 {
		t.Errorf("%d pods of the second Job, want none before it has quota", len(got))
	}
	s.kubectl("delete", "-n", s.ns, "job", "queued")
	s.running("next-", 4)
}

// The JobSet of a TrainJob starts as a whole. A suspended TrainJob has no pods, and starts as a whole
// when it is resumed.
func TestATrainJobStartsAsAWhole(t *testing.T) {
	s := tellLong(t)
	t.Cleanup(func() {
		// Otherwise Trainer makes the JobSet again.
		if _, _, err := s.Kubectl(context.WithoutCancel(s.Context()), "delete", "trainjobs", "--all", "-n", s.ns, "--timeout=60s"); err != nil {
			t.Errorf("delete the TrainJobs: %v", err)
		}
	})
	s.nodes("n", 1)
	s.example("trainjob.yaml")
	s.groups(1, 4)
	s.refused(1, reason.NeverFits, "could hold")
	s.noneOnNodes("")
	s.nodes("late", 1)
	s.running("finetune-", 4)
	s.patch("trainjob/finetune", `{"spec":{"suspend":true}}`)
	s.eventually("no pod is left", func(context.Context) (bool, string) {
		n := len(s.pods("finetune-"))
		return n == 0, fmt.Sprintf("%d pods", n)
	})
	s.patch("trainjob/finetune", `{"spec":{"suspend":false}}`)
	s.running("finetune-", 4)
}

// The master and the workers of a PyTorchJob start together. A suspended PyTorchJob has no pods, and starts
// as a whole when it is resumed.
func TestAPyTorchJobStartsAsAWhole(t *testing.T) {
	s := tellLong(t)
	t.Cleanup(func() {
		if _, _, err := s.Kubectl(context.WithoutCancel(s.Context()), "delete", "pytorchjobs", "--all", "-n", s.ns, "--timeout=60s"); err != nil {
			t.Errorf("delete the PyTorchJobs: %v", err)
		}
	})
	s.nodes("n", 7)
	s.example("pytorchjob.yaml")
	s.groups(1, 8)
	s.refused(1, reason.NeverFits, "could hold")
	s.noneOnNodes("")
	s.nodes("late", 1)
	s.running("pretrain-", 8)
	s.patch("pytorchjob/pretrain", `{"spec":{"runPolicy":{"suspend":true}}}`)
	s.eventually("no pod is left", func(context.Context) (bool, string) {
		n := len(s.pods("pretrain-"))
		return n == 0, fmt.Sprintf("%d pods", n)
	})
	s.patch("pytorchjob/pretrain", `{"spec":{"runPolicy":{"suspend":false}}}`)
	s.running("pretrain-", 8)
}

// No controller of Ray runs here. But the API server accepts the examples by the schemas of KubeRay.
func TestTheExamplesOfRayFitTheirSchemas(t *testing.T) {
	s := tellLong(t)
	built, err := tools.BuildLongOperators(s.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	s.kubectl("apply", "--server-side", "-f", built.KubeRayCRDs)
	if err := s.WaitCRDs(s.Context(), "rayclusters.ray.io", "rayjobs.ray.io"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"raycluster.yaml", "rayjob.yaml"} {
		s.kubectl("apply", "-n", s.ns, "--dry-run=server", "--validate=strict", "-f", s.Example(filepath.Join("operators", name)))
	}
}

// The MPI operator with -gang-scheduling sets the scheduler, and makes the PodGroup. The MPIJob names neither.
func TestAnMPIJobWhosePodGroupItsOperatorMakes(t *testing.T) {
	s := tellLong(t)
	s.nodes("n", 2)
	s.example("mpijob-without-scheduler.yaml")
	s.groups(1, 5)
	s.refused(1, reason.NeverFits, "could hold")
	s.noneOnNodes("")
	s.nodes("late", 1)
	s.running("plain-", 5)
	for _, p := range s.pods("plain-") {
		if p.Spec.SchedulerName != "fluence" {
			t.Errorf("pod %s has the scheduler %s, want fluence", p.Name, p.Spec.SchedulerName)
		}
	}
	groups, err := s.PodGroups(s.Context(), s.ns)
	if err != nil || len(groups) != 1 || groups[0].Name != "plain" {
		t.Errorf("PodGroups %+v (error %v), want the one that the operator made", groups, err)
	}
}
