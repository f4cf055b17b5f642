package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/stack"
)

// patience bounds every wait.
const patience = 60 * time.Second

// A story is one test with its own namespace and nodes on the shared stack.
type story struct {
	*testing.T
	*stack.Stack
	ns string
}

// tell begins a story. After the story its pods and
// nodes are deleted, and the matcher must hold nothing.
func tell(t *testing.T) *story {
	t.Helper()
	s := &story{T: t, Stack: fluence, ns: strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))}
	s.kubectl("create", "namespace", s.ns)
	s.kubectl("label", "namespace", s.ns, group.WholeNodesLabel+"="+group.WholeNodesAllowed)
	t.Cleanup(s.end)
	// The API server refuses pods in a namespace without a service account. The
	// controller manager may create it late after a story of the API server.
	s.eventually("the namespace has its service account", func(ctx context.Context) (bool, string) {
		_, err := s.Client().CoreV1().ServiceAccounts(s.ns).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	return s
}

func (s *story) end() {
	ctx := context.WithoutCancel(s.Context())
	if s.Failed() {
		s.dump(ctx)
	}
	s.survivors()
	s.clear(ctx)
	nodes, err := s.Client().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
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
	s.eventually("the matcher holds nothing", func(ctx context.Context) (bool, string) {
		jobs, err := metric(ctx, "fluence_sidecar_jobs")
		return err == nil && jobs == "0", fmt.Sprintf("jobs %s, error %v", jobs, err)
	})
}

// survivors fails if a process of Fluence or of the control plane has ended by itself. It
// restarts the process for the next stories. A scheduler that lost its lease ends by itself.
func (s *story) survivors() {
	s.Helper()
	for _, p := range []struct {
		name  string
		again func(string)
	}{
		{cluster.Etcd, s.restore},
		{cluster.KubeAPIServer, s.restore},
		{cluster.KubeControllerManager, s.restore},
		{cluster.KubeScheduler, s.restore},
		{cluster.Kwok, s.restore},
		{cluster.FakeKubelet, s.restore},
		{stack.Sidecar, s.start},
		{stack.Controller, s.start},
		{stack.Scheduler, s.start},
	} {
		select {
		case <-s.Process(p.name).Done():
			s.Errorf("%s has ended:\n%s", p.name, s.Process(p.name).Tail(10))
			p.again(p.name)
		default:
		}
	}
}

// makers are the kinds of objects that create pods. Kinds that create others come first.
const makers = "cronjobs,jobs,deployments,replicasets,statefulsets,daemonsets"

// clear deletes the objects in the story's namespace that create pods, and then the
// pods. It repeats that, because such an object may just have created another pod.
func (s *story) clear(ctx context.Context) {
	s.Helper()
	if _, _, err := s.Kubectl(ctx, "delete", makers, "--all", "-n", s.ns, "--timeout=60s"); err != nil {
		s.Errorf("clear the namespace: %v", err)
	}
	s.eventually("no pods left", func(context.Context) (bool, string) {
		if len(s.pods("")) == 0 {
			return true, ""
		}
		_, _, err := s.Kubectl(ctx, "delete", "pods", "--all", "-n", s.ns, "--force", "--grace-period=0", "--timeout=60s")
		return false, fmt.Sprintf("deleted some, error %v", err)
	})
}

func (s *story) dump(ctx context.Context) {
	for _, args := range [][]string{{"get", "pods", "-o", "wide"}, {"describe", "podgroups.scheduling.x-k8s.io"}, {"describe", "queues.fluence.flux-framework.org,fluxjobs.fluence.flux-framework.org"}, {"get", "events"}} {
		out, _, err := s.Kubectl(ctx, append(args, "-n", s.ns)...)
		s.Logf("$ kubectl %s (%v)\n%s", strings.Join(args, " "), err, out)
	}
	for _, name := range []string{stack.Scheduler, stack.StandbyScheduler, stack.Controller, stack.Sidecar} {
		if p := s.Process(name); p != nil {
			s.Logf("--- %s:\n%s", name, p.Tail(60))
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

// apply applies an example of manifests/examples.
func (s *story) apply(example string) {
	s.Helper()
	s.kubectl("apply", "-n", s.ns, "-f", s.Example(example))
}

// applyText applies another manifest.
func (s *story) applyText(manifest string) {
	s.Helper()
	if _, _, err := s.KubectlInput(s.Context(), strings.NewReader(manifest), "apply", "-n", s.ns, "-f", "-"); err != nil {
		s.Fatalf("apply: %v", err)
	}
}

// nodes adds nodes with an amount of CPU each, named after the story.
func (s *story) nodes(prefix string, n int, cpu string, edit ...func(*corev1.Node)) {
	s.Helper()
	_, err := s.AddNodes(s.Context(), cluster.Nodes{
		Count: n,
		Name:  func(i int) string { return fmt.Sprintf("%s-%d", prefix, i) },
		Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    apiresource.MustParse(cpu),
			corev1.ResourceMemory: apiresource.MustParse("32Gi"),
		},
		Edit: func(_ int, node *corev1.Node) {
			for _, e := range edit {
				e(node)
			}
		},
	})
	if err != nil {
		s.Fatalf("add nodes: %v", err)
	}
}

func label(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

// eventually waits until done returns true. The text that done returns describes the progress.
func (s *story) eventually(what string, done func(context.Context) (bool, string)) {
	s.Helper()
	s.soon(what, 50*time.Millisecond, done)
}

// soon does the same with another interval.
func (s *story) soon(what string, every time.Duration, done func(context.Context) (bool, string)) {
	s.Helper()
	s.within(patience, what, every, done)
}

// within does the same with another time limit and interval.
func (s *story) within(most time.Duration, what string, every time.Duration, done func(context.Context) (bool, string)) {
	s.Helper()
	// The end of a story waits too, when its context is done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), most)
	defer cancel()
	eventually.TrueEvery(ctx, s, every, what, done)
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

// onNodes returns the nodes of the pods that have one, by the pod's name.
func (s *story) onNodes(prefix string) map[string]string {
	s.Helper()
	nodes := map[string]string{}
	for _, p := range s.pods(prefix) {
		if p.Spec.NodeName != "" {
			nodes[p.Name] = p.Spec.NodeName
		}
	}
	return nodes
}

// running waits until n pods with a name prefix run.
func (s *story) running(prefix string, n int) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d pods %s* running", n, prefix), func(context.Context) (bool, string) {
		running := 0
		for _, p := range s.pods(prefix) {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == n, fmt.Sprintf("%d run", running)
	})
}

// noneOnNodes fails if a pod with a name prefix has a node.
func (s *story) noneOnNodes(prefix string) {
	s.Helper()
	if got := s.onNodes(prefix); len(got) > 0 {
		s.Errorf("pods on nodes: %v, want none", got)
	}
}

// group returns the PodGroup with a name prefix.
func (s *story) group(ctx context.Context, prefix string) *scheduling.PodGroup {
	s.Helper()
	groups, err := s.PodGroups(ctx, s.ns)
	if ctx.Err() != nil {
		// The caller reports what it waits for.
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	for i := range groups {
		if strings.HasPrefix(groups[i].Name, prefix) {
			return &groups[i]
		}
	}
	return nil
}

// condition waits until a condition of the group has a
// status and a reason, and all of the words in its message.
func (s *story) condition(prefix, kind string, status metav1.ConditionStatus, reason string, words ...string) {
	s.Helper()
	s.eventually(fmt.Sprintf("PodGroup %s* with %s=%s, %s, %q", prefix, kind, status, reason, words), func(ctx context.Context) (bool, string) {
		g := s.group(ctx, prefix)
		if g == nil {
			return false, "no PodGroup"
		}
		c := meta.FindStatusCondition(g.Status.Conditions, kind)
		if c == nil {
			return false, fmt.Sprintf("conditions %+v", g.Status.Conditions)
		}
		ok := c.Status == status && c.Reason == reason
		for _, w := range words {
			ok = ok && strings.Contains(c.Message, w)
		}
		return ok, fmt.Sprintf("%+v", *c)
	})
}

// refused waits until the group is refused for a reason, with all of the words in the message.
func (s *story) refused(prefix, reason string, words ...string) {
	s.Helper()
	s.condition(prefix, "Scheduled", metav1.ConditionFalse, reason, words...)
}

// placed waits until the group is placed.
func (s *story) placed(prefix string) {
	s.Helper()
	s.condition(prefix, "Scheduled", metav1.ConditionTrue, "Placed")
}

// metric returns the value of an unlabelled metric of the sidecar.
func metric(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsAddress+"/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("no metric %s", name)
}

// schedulerLog returns all that the scheduler has logged.
func (s *story) schedulerLog() string {
	s.Helper()
	text, err := os.ReadFile(s.Process(stack.Scheduler).Log())
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// schedulerConfigWith writes the configuration of the stack's
// scheduler with other arguments of the plugin, and returns its path.
func schedulerConfigWith(t *testing.T, args map[string]any) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(fluence.Dir(), "fluence-scheduler.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	maps.Copy(stack.PluginArgs(config), args)
	out, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
