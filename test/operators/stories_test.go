package operators_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-k8s/fluence/pkg/reason"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/operators"
	"github.com/flux-k8s/fluence/test/stack"
)

// fluence is the stack on which all stories run. Most run side by side: each has nodes of its own.
var fluence *stack.Stack

// long adds the operators of long tests.
var long = flag.Bool("operators.long", false, "start Kueue, Trainer and the training operator too, and the MPI operator with -gang-scheduling, for the stories that need them")

// native lets the API server serve native PodGroups, and the Job controller make them.
var native = flag.Bool("operators.native", false, "run the stories on a control plane with native PodGroups")

// patience bounds every wait.
const patience = 90 * time.Second

// atOnce is how many stories run side by side. They wait most of their time.
const atOnce = "6"

// storyLabel is a label of nodes. Its value is the namespace of the story to which the node belongs.
const storyLabel = "example.com/story"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	config := cluster.Config{Log: os.Stderr}
	if *native {
		config.FeatureGates = map[string]bool{"GenericWorkload": true, "WorkloadWithJob": true}
		config.RuntimeConfig = map[string]bool{"scheduling.k8s.io/v1beta1": true}
	}
	c, err := cluster.Start(ctx, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := c.Stop(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	// The operators' kinds are there before Fluence starts. Their objects come later.
	names := []operators.Name{operators.JobSet, operators.LeaderWorkerSet, operators.MPIOperator}
	if *long {
		names = []operators.Name{operators.JobSet, operators.LeaderWorkerSet, operators.Trainer, operators.TrainingOperator, operators.Kueue}
	}
	for _, name := range names {
		if err := operators.Start(ctx, c, name, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	fluence, err = stack.Start(ctx, c, stack.Config{
		Chart: &stack.Chart{},
		Args:  map[string]any{"topologyLevels": []string{"topology.kubernetes.io/zone"}},
		Log:   os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if *long {
		// With this flag the operator needs the CRD of PodGroup.
		if err := operators.Start(ctx, c, operators.MPIOperator, os.Stderr, "-gang-scheduling=fluence"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// A story is one test with its own namespace and nodes on the shared stack.
type story struct {
	*testing.T
	*stack.Stack
	ns string
	// made is the number of nodes that the story has made.
	made int
}

// tellBeside begins a story that runs beside others. Its pods have to name its nodes.
func tellBeside(t *testing.T) *story {
	t.Helper()
	t.Parallel()
	return tell(t)
}

// tell begins a story that runs while no other does. At its end its objects are deleted, and then no pod and
// no PodGroup may be left.
func tell(t *testing.T) *story {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane")
	}
	s := &story{T: t, Stack: fluence, ns: strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))}
	s.kubectl("create", "namespace", s.ns)
	t.Cleanup(s.end)
	s.eventually("the namespace has its service account", func(ctx context.Context) (bool, string) {
		_, err := s.Client().CoreV1().ServiceAccounts(s.ns).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	return s
}

// end deletes what the story has made. The operators delete the pods, and the garbage collector the
// PodGroups.
func (s *story) end() {
	ctx := context.WithoutCancel(s.Context())
	if s.Failed() {
		s.dump(ctx)
	}
	if _, _, err := s.Kubectl(ctx, "delete", "jobsets,leaderworkersets,mpijobs,jobs", "--all", "-n", s.ns, "--timeout=60s"); err != nil {
		s.Errorf("clear the namespace: %v", err)
	}
	s.eventually("no pod and no PodGroup is left", func(ctx context.Context) (bool, string) {
		groups, err := s.PodGroups(ctx, s.ns)
		pods := s.pods("")
		return err == nil && len(groups) == 0 && len(pods) == 0, fmt.Sprintf("%d PodGroups, %d pods, error %v", len(groups), len(pods), err)
	})
	nodes, err := s.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: storyLabel + "=" + s.ns})
	if err != nil {
		s.Errorf("list nodes: %v", err)
		return
	}
	var names []string
	for _, n := range nodes.Items {
		names = append(names, n.Name)
	}
	if err := s.RemoveNodes(ctx, names...); err != nil {
		s.Errorf("remove nodes: %v", err)
	}
}

func (s *story) dump(ctx context.Context) {
	for _, args := range [][]string{{"get", "pods,jobs,jobsets,leaderworkersets,mpijobs", "-o", "wide"}, {"describe", "podgroups.scheduling.x-k8s.io"}, {"get", "events"}} {
		out, _, err := s.Kubectl(ctx, append(args, "-n", s.ns)...)
		s.Logf("$ kubectl %s (%v)\n%s", strings.Join(args, " "), err, out)
	}
	for _, name := range []string{stack.Scheduler, stack.Controller, string(operators.JobSet), string(operators.LeaderWorkerSet), string(operators.MPIOperator), string(operators.Trainer), string(operators.TrainingOperator), string(operators.Kueue)} {
		if p := s.Process(name); p != nil {
			s.Logf("--- %s:\n%s", name, p.Tail(40))
		}
	}
}

func (s *story) kubectl(args ...string) string {
	s.Helper()
	out, _, err := s.Kubectl(s.Context(), args...)
	if err != nil {
		s.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// apply applies a manifest.
func (s *story) apply(manifest string) {
	s.Helper()
	if _, _, err := s.KubectlInput(s.Context(), strings.NewReader(manifest), "apply", "-n", s.ns, "-f", "-"); err != nil {
		s.Fatalf("apply: %v", err)
	}
}

// patch merges a change into an object.
func (s *story) patch(object, change string) {
	s.Helper()
	s.kubectl("patch", "-n", s.ns, object, "--type=merge", "-p", change)
}

// nodes adds nodes of 8 CPUs to the story, all in one rack. A rack is a zone.
func (s *story) nodes(rack string, n int) {
	s.Helper()
	_, err := s.AddNodes(s.Context(), cluster.Nodes{
		Count: n,
		Name:  func(i int) string { return fmt.Sprintf("%s-%d", s.ns, s.made+i) },
		Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    apiresource.MustParse("8"),
			corev1.ResourceMemory: apiresource.MustParse("32Gi"),
		},
		Labels: func(int) map[string]string {
			return map[string]string{storyLabel: s.ns, corev1.LabelTopologyZone: s.ns + "-" + rack}
		},
	})
	if err != nil {
		s.Fatalf("add nodes: %v", err)
	}
	s.made += n
}

// eventually waits until done returns true. The text that done returns describes the progress.
func (s *story) eventually(what string, done func(context.Context) (bool, string)) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), patience)
	defer cancel()
	eventually.True(ctx, s, what, done)
}

// pods returns the story's pods with a name prefix.
func (s *story) pods(prefix string) []corev1.Pod {
	s.Helper()
	list, err := s.Client().CoreV1().Pods(s.ns).List(context.WithoutCancel(s.Context()), metav1.ListOptions{})
	if err != nil {
		s.Fatalf("list pods: %v", err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !strings.HasPrefix(p.Name, prefix) })
}

// onNodes returns the pods with a name prefix that have nodes and have not ended, by UID.
func (s *story) onNodes(prefix string) map[string]string {
	s.Helper()
	names := map[string]string{}
	for _, p := range s.pods(prefix) {
		if p.Spec.NodeName != "" && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			names[string(p.UID)] = p.Name
		}
	}
	return names
}

// running waits until exactly n pods with a name prefix run. It returns their names by UID.
func (s *story) running(prefix string, n int) map[string]string {
	s.Helper()
	var names map[string]string
	s.eventually(fmt.Sprintf("%d pods %s* running", n, prefix), func(context.Context) (bool, string) {
		names = map[string]string{}
		for _, p := range s.pods(prefix) {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				names[string(p.UID)] = p.Name
			}
		}
		return len(names) == n, fmt.Sprintf("%d run", len(names))
	})
	return names
}

// replaced waits until n pods with a name prefix run, none of which is among the old ones.
func (s *story) replaced(prefix string, n int, old map[string]string) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d new pods %s* running", n, prefix), func(context.Context) (bool, string) {
		fresh := 0
		for _, p := range s.pods(prefix) {
			if old[string(p.UID)] == "" && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				fresh++
			}
		}
		return fresh == n, fmt.Sprintf("%d run", fresh)
	})
}

// groups waits until there are n PodGroups, each with this minMember.
func (s *story) groups(n int, minMember int32) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d PodGroups of %d", n, minMember), func(ctx context.Context) (bool, string) {
		groups, err := s.PodGroups(ctx, s.ns)
		if err != nil {
			return false, err.Error()
		}
		var got []string
		good := len(groups) == n
		for _, pg := range groups {
			got = append(got, fmt.Sprintf("%s: %d", pg.Name, pg.Spec.MinMember))
			good = good && pg.Spec.MinMember == minMember
		}
		return good, strings.Join(got, ", ")
	})
}

// refused waits until n PodGroups are refused for a reason, with all of the words in their messages.
func (s *story) refused(n int, why string, words ...string) {
	s.Helper()
	s.scheduled(n, metav1.ConditionFalse, why, words...)
}

// told waits until a PodGroup has its nodes, with a reason and all of the words in its message.
func (s *story) told(why string, words ...string) {
	s.Helper()
	s.scheduled(1, metav1.ConditionTrue, why, words...)
}

// scheduled waits until the condition Scheduled of n PodGroups has a status, a reason, and all of the words
// in its message.
func (s *story) scheduled(n int, status metav1.ConditionStatus, why string, words ...string) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d PodGroups with Scheduled=%s, %s, %q", n, status, why, words), func(ctx context.Context) (bool, string) {
		groups, err := s.PodGroups(ctx, s.ns)
		if err != nil {
			return false, err.Error()
		}
		found, got := 0, []string{}
		for _, pg := range groups {
			c := meta.FindStatusCondition(pg.Status.Conditions, "Scheduled")
			if c == nil {
				continue
			}
			got = append(got, fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message))
			if c.Status == status && c.Reason == why && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(c.Message, w) }) {
				found++
			}
		}
		return found == n, strings.Join(got, "; ")
	})
}

// noneOnNodes fails if a pod with a name prefix has a node.
func (s *story) noneOnNodes(prefix string) {
	s.Helper()
	if got := s.onNodes(prefix); len(got) > 0 {
		s.Errorf("pods on nodes: %v, want none", got)
	}
}

// training is a JobSet of a leader and 3 Jobs of 4 workers: 13 pods.
func (s *story) training(maxRestarts int) string {
	return s.jobSet("train", fmt.Sprintf("failurePolicy: {maxRestarts: %d}", maxRestarts),
		replicatedJob{name: "leader", jobs: 1, pods: 1, cpu: "4"}, replicatedJob{name: "workers", jobs: 3, pods: 4, cpu: "4"})
}

// All pods of a JobSet start together, or none. With room for a part of them the reason has the
// numbers, and a node more is enough.
func TestAJobSetStartsAsAWhole(t *testing.T) {
	s := tellBeside(t)
	s.nodes("n", 6)
	s.apply(s.training(0))
	s.groups(1, 13)
	s.refused(1, reason.NeverFits, "could hold")
	s.noneOnNodes("")
	s.nodes("late", 1)
	s.running("", 13)
}

// A JobSet that restarts is placed as a whole again, each time.
func TestAJobSetRestartsAsAWhole(t *testing.T) {
	s := tellBeside(t)
	s.nodes("n", 7)
	s.apply(s.training(2))
	for range 2 {
		old := s.running("train-", 13)
		s.kubectl("annotate", "-n", s.ns, "pod", s.pods("train-workers-1-0-")[0].Name, "kwok.fluence.flux-framework.org/fail-after=0s")
		s.replaced("train-", 13, old)
	}
}

// Each leader of a LeaderWorkerSet is a group with its workers. A unit in which a container was
// started again is made anew, and placed as a whole.
func TestUnitsOfALeaderWorkerSet(t *testing.T) {
	s := tellBeside(t)
	s.nodes("n", 4)
	s.apply(s.leaderWorkerSet("serve", ""))
	s.running("serve-0", 4)
	s.patch("leaderworkerset/serve", `{"spec":{"replicas":2}}`)
	old := s.running("serve-1", 4)
	s.patch("leaderworkerset/serve", `{"spec":{"replicas":3}}`)
	s.groups(3, 4)
	s.refused(1, reason.NoRoom, "room for")
	s.noneOnNodes("serve-2")
	s.patch("leaderworkerset/serve", `{"spec":{"replicas":2}}`)
	s.kubectl("annotate", "-n", s.ns, "pod", "serve-1-2", "kwok.fluence.flux-framework.org/restarted=true")
	s.replaced("serve-1", 4, old)
}

// With restartPolicy RecreateGroupOnPodRestart a unit that loses a pod is made anew as well.
func TestAUnitOfALeaderWorkerSetLosesAPod(t *testing.T) {
	s := tellBeside(t)
	s.nodes("n", 2)
	s.apply(s.leaderWorkerSet("serve", ""))
	old := s.running("serve-0", 4)
	s.kubectl("delete", "-n", s.ns, "pod", "serve-0-3", "--wait=false")
	s.replaced("serve-0", 4, old)
}

// The launcher and the workers of an MPIJob start together. A suspended MPIJob has no pods, and
// starts as a whole when it is resumed.
func TestAnMPIJobStartsAsAWhole(t *testing.T) {
	s := tellBeside(t)
	s.nodes("n", 1)
	s.apply(s.mpiJob("solve", "AtStartup"))
	s.groups(1, 5)
	s.refused(1, reason.NeverFits, "could hold")
	s.noneOnNodes("")
	s.nodes("late", 1)
	s.running("solve-", 5)
	s.patch("mpijob/solve", `{"spec":{"runPolicy":{"suspend":true}}}`)
	s.eventually("no pod has a node", func(context.Context) (bool, string) {
		on := s.onNodes("solve-")
		return len(on) == 0, fmt.Sprint(on)
	})
	s.patch("mpijob/solve", `{"spec":{"runPolicy":{"suspend":false}}}`)
	s.running("solve-", 5)
}
