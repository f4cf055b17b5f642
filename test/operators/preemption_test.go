package operators_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-k8s/fluence/pkg/eviction"
	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/pkg/preemption"
)

// A Job of a higher priority needs all nodes of a JobSet, an MPIJob, a StatefulSet and a unit of a LeaderWorkerSet. They
// make room as wholes, before bare pods of their priority do. The objects at the top are suspended and resumed, if they
// can be, and no pod of them counts as failed. When the Job is gone, all but the bare pods run again, and to their end.
func TestOwnersMakeRoomAndComeBack(t *testing.T) {
	s := tellBeside(t)
	s.bare("bare", 2)
	prefixes := map[string]int{"train-": 4, "solve-": 5, "set-": 2, "serve-": 4}
	suspended := []string{"jobset/train", "mpijob/solve"}
	nodes := 8
	if *long {
		nodes += 2
		s.trainJob("finetune")
		prefixes["finetune-"], suspended = 4, append(suspended, "trainjob/finetune")
	}
	s.nodes("n", nodes)
	for _, manifest := range []string{
		s.jobSet("train", "failurePolicy: {maxRestarts: 3}", replicatedJob{name: "leader", jobs: 1, pods: 1, cpu: "4"}, replicatedJob{name: "workers", jobs: 1, pods: 3, cpu: "4"}),
		s.mpiJob("solve", "AtStartup"), s.statefulSet("set"), s.leaderWorkerSet("serve", ""),
	} {
		s.apply(s.in("n", manifest))
	}
	first := s.runningAll(prefixes)

	high := s.urgent()
	s.apply(job("high", nodes, high))
	s.running("high-", nodes)
	s.running("bare-", 2)
	for _, object := range suspended {
		s.is(object, `.status.conditions[?(@.type=="Suspended")].status`, "False")
		s.is(object, suspendedFor, "")
	}
	s.apply(job("more", 1, high))
	s.running("more-", 1)
	s.eventually("the bare pods have gone", func(context.Context) (bool, string) { return len(s.pods("bare-")) == 0, "they are there" })
	s.kubectl("delete", "-n", s.ns, "job", "high", "more", "--wait=false")
	for uid, name := range s.runningAll(prefixes) {
		if first[uid] != "" {
			t.Errorf("pod %s has stayed", name)
		}
	}

	// Fluence suspends none of the Jobs below these objects.
	if by := s.kubectl("get", "-n", s.ns, "jobs", "--show-managed-fields", "-o", "jsonpath={.items[*].metadata.managedFields[*].manager}"); strings.Contains(by, eviction.FieldManager) {
		t.Errorf("the Jobs were written by %s", by)
	}
	s.succeed("train-")
	s.succeed("solve-launcher-")
	s.is("jobset/train", completed("Completed"), "True")
	s.is("mpijob/solve", completed("Succeeded"), "True")
	if *long {
		s.succeed("finetune-")
		s.is("trainjob/finetune", completed("Complete"), "True")
	}
	s.is("jobs", ".items[*].status.failed", "")
	if restarts := s.kubectl("get", "-n", s.ns, "jobset", "train", "-o", "jsonpath={.status.restarts}/{.status.restartsCountTowardsMax}"); strings.Trim(restarts, "0/") != "" {
		t.Errorf("restarts of the JobSet, all and those that count: %s, want none", restarts)
	}
	if pods := s.pods("bare-"); len(pods) > 0 {
		t.Errorf("%d bare pods are there, want none", len(pods))
	}
}

// A Job makes room before a JobSet that Kueue manages and before groups with pods of two Jobs. Their pods are deleted, and
// count as failed. So the JobSet restarts, and a Job fails whose limit is passed, unless it ignores evictions. What has
// not failed runs again.
func TestPodsThatAreDeletedCountAsFailed(t *testing.T) {
	s := tellBeside(t)
	s.queue()
	const plain, queued, shared, doomed = "plain", "queued", "shared", "doomed"
	s.nodes(plain, 1)
	s.apply(s.in(plain, job(plain, 2, s.podSpec("4"))))
	s.nodes(queued, 1)
	s.apply(s.in(queued, strings.Replace(s.jobSet(queued, "failurePolicy: {maxRestarts: 1}", replicatedJob{name: "workers", jobs: 1, pods: 2, cpu: "4"}),
		"metadata: {", fmt.Sprintf("metadata: {labels: {%s: %s}, ", preemption.QueueLabel, localQueue), 1)))
	s.nodes(shared, 1)
	const ignores = "backoffLimit: 0, podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}, "
	s.apply(s.in(shared, s.jobOf(shared, "a", ignores)+s.jobOf(shared, "b", "")))
	s.nodes(doomed, 1)
	s.apply(s.in(doomed, s.jobOf(doomed, "a", "backoffLimit: 0, ")+s.jobOf(doomed, "b", "backoffLimit: 0, ")))
	all := map[string]int{plain + "-": 2, queued + "-": 2, shared + "-": 2, doomed + "-": 2}
	first := s.runningAll(all)

	high := s.urgent()
	s.apply(job("high", 1, high))
	s.running("high-", 1)
	delete(all, plain+"-")
	for uid, name := range s.runningAll(all) {
		if first[uid] == "" {
			t.Errorf("pod %s is new, want only the Job evicted", name)
		}
	}
	s.apply(job("more", 3, high))
	s.fail("shared-a-")
	s.running("more-", 3)
	s.is("job/doomed-a", completed("Failed"), "True")
	s.is("job/doomed-b", completed("Failed"), "True")
	s.kubectl("delete", "-n", s.ns, "job", "high", "more", "--wait=false")

	delete(all, doomed+"-")
	all[plain+"-"] = 2
	s.runningAll(all)
	for prefix := range all {
		s.succeed(prefix)
	}
	s.is("jobset/queued", completed("Completed"), "True")
	for object, want := range map[string]string{"jobset/queued": "1 ", "job/plain": " ", "job/shared-a": " ", "job/shared-b": " 1"} {
		got := s.kubectl("get", "-n", s.ns, object, "-o", "jsonpath={.status.restarts} {.status.failed}")
		if got != want {
			t.Errorf("restarts and failed pods of %s: %q, want %q", object, got, want)
		}
		if !strings.HasPrefix(object, "jobset") {
			s.is(object, completed("Complete"), "True")
		}
	}
}

// suspendedFor is the path of the annotation of an object that Fluence has suspended.
var suspendedFor = ".metadata.annotations." + strings.ReplaceAll(group.SuspendedForAnnotation, ".", `\.`)

// completed is the path of the status of a condition.
func completed(condition string) string {
	return fmt.Sprintf(`.status.conditions[?(@.type==%q)].status`, condition)
}

// in returns a manifest whose pods may go to one rack of the story alone.
func (s *story) in(rack, manifest string) string {
	return strings.ReplaceAll(manifest, storyLabel+": "+s.ns, corev1.LabelTopologyZone+": "+s.ns+"-"+rack)
}

// job is a Job of pods that run until they are told to end.
func job(name string, pods int, podSpec string) string {
	return fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: %s}\nspec: {parallelism: %d, completions: %[2]d, template: {spec: %[3]s}}\n", name, pods, podSpec)
}

// jobOf is a Job of one pod, of a group of two pods. field is a further field of its spec, with a comma.
func (s *story) jobOf(groupName, name, field string) string {
	return fmt.Sprintf("apiVersion: batch/v1\nkind: Job\nmetadata: {name: %s-%s}\nspec: {%stemplate: {metadata: {labels: {%s: %[1]s, %[5]s: %q}}, spec: %s}}\n---\n",
		groupName, name, field, group.Label, group.SizeLabel, "2", s.podSpec("4"))
}

// statefulSet is a StatefulSet of two pods of 4 CPUs.
func (s *story) statefulSet(name string) string {
	s.discard("statefulset/" + name)
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: %s}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: %[1]s}}
  template: {metadata: {labels: {app: %[1]s}}, spec: %[2]s}
`, name, strings.Replace(s.podSpec("4"), "restartPolicy: Never, ", "", 1))
}

// trainJob creates a TrainJob of four pods of 4 CPUs in the rack n.
func (s *story) trainJob(name string) {
	s.Helper()
	s.discard("trainjob/" + name)
	s.apply(s.in("n", fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: %s, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 4, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: %s}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: %[1]s}
spec: {runtimeRef: {name: %[1]s, kind: TrainingRuntime}}
`, name, strings.Replace(s.podSpec("4"), "name: main", "name: node", 1))))
}

// bare creates pods of 4 CPUs that nothing controls, in a rack of one node.
func (s *story) bare(rack string, n int) {
	s.Helper()
	s.nodes(rack, 1)
	for i := range n {
		s.apply(s.in(rack, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: bare-%d}\nspec: %s\n", i, s.podSpec("4"))))
		s.discard(fmt.Sprintf("pod/bare-%d", i))
	}
	s.running("bare-", n)
}

// localQueue is the queue of Kueue of manifests/examples/operators/kueue.yaml.
const localQueue = "users"

// queue creates the queue if Kueue runs. Without it a label alone says that Kueue manages an object.
func (s *story) queue() {
	s.Helper()
	if !*long {
		return
	}
	text, err := os.ReadFile(s.Example("operators/kueue.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	queue, _, _ := strings.Cut(string(text), "---\napiVersion: batch/v1")
	s.apply(queue)
}

// urgent returns the spec of a pod that needs a node of its own, and may evict pods without a priority.
func (s *story) urgent() string {
	s.Helper()
	s.apply(fmt.Sprintf("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: %s}\nvalue: 1000\n", s.ns))
	s.discard("priorityclass/" + s.ns)
	return podSpec("8", fmt.Sprintf("priorityClassName: %s, nodeSelector: {%s: %s}, ", s.ns, storyLabel, s.ns))
}

// discard deletes an object at the end of the story, before those are deleted that story.end knows.
func (s *story) discard(object string) {
	s.Cleanup(func() {
		if _, _, err := s.Kubectl(context.WithoutCancel(s.Context()), "delete", "-n", s.ns, object, "--ignore-not-found", "--timeout=60s"); err != nil {
			s.Errorf("delete %s: %v", object, err)
		}
	})
}

// runningAll waits until as many pods of each name prefix run. It returns their names by UID.
func (s *story) runningAll(prefixes map[string]int) map[string]string {
	s.Helper()
	all := map[string]string{}
	for prefix, n := range prefixes {
		maps.Copy(all, s.running(prefix, n))
	}
	return all
}

// succeed lets the running pods of a name prefix succeed.
func (s *story) succeed(prefix string) {
	s.Helper()
	args := []string{"annotate", "-n", s.ns, "pods"}
	for _, name := range s.onNodes(prefix) {
		args = append(args, name)
	}
	s.kubectl(append(args, "kwok.fluence.flux-framework.org/run-for=0s")...)
}

// fail waits until the pod of a name prefix is being deleted, and sets it failed. A real kubelet does so at the end of a
// pod, the fake one does not. A Job with a podFailurePolicy counts a pod only then, and keeps its finalizer until then.
func (s *story) fail(prefix string) {
	s.Helper()
	var name string
	s.eventually("a pod "+prefix+"* is being deleted", func(context.Context) (bool, string) {
		for _, p := range s.pods(prefix) {
			if p.DeletionTimestamp != nil {
				name = p.Name
			}
		}
		return name != "", "none is"
	})
	s.kubectl("patch", "-n", s.ns, "pod", name, "--subresource=status", "--type=merge", "-p", `{"status": {"phase": "Failed"}}`)
}

// is waits until objects have a value at a path.
func (s *story) is(objects, path, want string) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s at %s of %s", want, path, objects), func(context.Context) (bool, string) {
		got := s.kubectl("get", "-n", s.ns, objects, "-o", "jsonpath={"+path+"}")
		return got == want, got
	})
}
