package cluster_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/kubelet"
	"github.com/flux-k8s/fluence/test/objects"
)

func TestPods(t *testing.T) {
	c := start(t, cluster.Config{
		StockScheduler: true,
		Nodes: cluster.Nodes{
			Count:       2,
			Allocatable: objects.Amounts("cpu", "4", "memory", "8Gi", "example.com/gpu", "2", "pods", "5"),
			Labels:      func(i int) map[string]string { return map[string]string{"rack": fmt.Sprint(i)} },
		},
	})
	t.Run("it listens on loopback only", func(t *testing.T) { testLoopbackOnly(t, c) })
	t.Run("a job ends when its pods' time is over", func(t *testing.T) { testJob(t, c) })
	t.Run("a pod fails when it is asked to", func(t *testing.T) { testFailAfter(t, c) })
	t.Run("pods have addresses of their own, and containers are started again", func(t *testing.T) { testAddressAndRestart(t, c) })
	t.Run("a pod that is deleted is gone, and another of its name stays", func(t *testing.T) { testRemoval(t, c) })
	t.Run("overcommit", func(t *testing.T) { testOvercommit(t, c) })
	t.Run("a burst of overcommit", func(t *testing.T) { testBurst(t, c) })
	t.Run("nodes come and go", func(t *testing.T) { testNodes(t, c) })
	t.Run("a node that gave way to one of its name runs pods", func(t *testing.T) { testNamesake(t, c) })
	t.Run("the audit log", func(t *testing.T) { testAudit(t, c) })
	t.Run("users have the rights they are given", func(t *testing.T) { testUsers(t, c) })
	t.Run("a component comes back", func(t *testing.T) { testRestart(t, c) })
}

func podSpec(pairs ...string) corev1.PodSpec {
	r := objects.Amounts(pairs...)
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{
			Name: "main", Image: "none",
			Resources: corev1.ResourceRequirements{Requests: r, Limits: r},
		}},
	}
}

// create creates a pod, with annotations if there are any.
func create(ctx context.Context, t *testing.T, c *cluster.Cluster, name string, spec corev1.PodSpec, annotations map[string]string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: spec}
	if _, err := c.Client().CoreV1().Pods(corev1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// bind binds a pod to a node, whether it has room or not.
func bind(ctx context.Context, t *testing.T, c *cluster.Cluster, name, node string) {
	t.Helper()
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := c.Client().CoreV1().Pods(corev1.NamespaceDefault).Bind(ctx, b, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// until waits for a pod in one of some phases. It
// returns the pod and all phases that it was seen in.
func until(ctx context.Context, t *testing.T, c *cluster.Cluster, name string, phases ...corev1.PodPhase) (*corev1.Pod, []corev1.PodPhase) {
	t.Helper()
	var last *corev1.Pod
	var seen []corev1.PodPhase
	err := cluster.Until(ctx, c.Client().CoreV1().Pods(corev1.NamespaceDefault), "metadata.name="+name,
		func(_ watch.EventType, pod *corev1.Pod) bool {
			last, seen = pod, append(seen, pod.Status.Phase)
			return slices.Contains(phases, pod.Status.Phase)
		})
	if err != nil {
		t.Fatalf("pod %s is not %v: %v; last seen: %v", name, phases, err, last)
	}
	return last, seen
}

func testJob(t *testing.T, c *cluster.Cluster) {
	ctx := within(t, time.Minute)
	two := int32(2)
	spec := podSpec("cpu", "1")
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{
		Parallelism: &two, Completions: &two,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kubelet.RunFor: "1500ms"}},
			Spec:       spec,
		},
	}}
	jobs := c.Client().BatchV1().Jobs(corev1.NamespaceDefault)
	begin := time.Now()
	if _, err := jobs.Create(ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := cluster.Until(ctx, jobs, "metadata.name=job", func(_ watch.EventType, job *batchv1.Job) bool {
		return job.Status.Succeeded == two
	})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 1500*time.Millisecond {
		t.Errorf("took %v, less than its pods run", took)
	}
}

// Real kubelets give each pod an address, and count how often a container was started again.
func testAddressAndRestart(t *testing.T, c *cluster.Cluster) {
	ctx := within(t, time.Minute)
	addresses := map[string]bool{}
	for _, name := range []string{"first", "second"} {
		create(ctx, t, c, name, podSpec("cpu", "100m"), map[string]string{"kwok.fluence.flux-framework.org/restarted": "true"})
		pod, _ := until(ctx, t, c, name, corev1.PodRunning)
		ip := net.ParseIP(pod.Status.PodIP)
		if ip == nil || ip.IsLoopback() || addresses[pod.Status.PodIP] {
			t.Errorf("pod %s has the address %q, want one that no other pod has", name, pod.Status.PodIP)
		}
		addresses[pod.Status.PodIP] = true
		err := cluster.Until(ctx, c.Client().CoreV1().Pods(corev1.NamespaceDefault), "metadata.name="+name, func(_ watch.EventType, pod *corev1.Pod) bool {
			return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].RestartCount == 1
		})
		if err != nil {
			t.Errorf("pod %s: wait for a restart of its container: %v", name, err)
		}
		if err := c.Client().CoreV1().Pods(corev1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// testRemoval deletes a pod, removes it before the kubelet does, and creates another of its name. Then it
// waits until the kubelet has removed a third pod, which was deleted last. By then it would have acted on the first.
func testRemoval(t *testing.T, c *cluster.Cluster) {
	ctx := within(t, time.Minute)
	pods := c.Client().CoreV1().Pods(corev1.NamespaceDefault)
	remove := func(name string, grace int64) {
		t.Helper()
		if err := pods.Delete(ctx, name, *metav1.NewDeleteOptions(grace)); err != nil {
			t.Fatal(err)
		}
	}
	spec := podSpec("cpu", "1")
	spec.SchedulerName = "none"
	for _, name := range []string{"removed", "last"} {
		create(ctx, t, c, name, spec, nil)
		bind(ctx, t, c, name, "node-0000")
		until(ctx, t, c, name, corev1.PodRunning)
	}
	remove("removed", 30)
	remove("removed", 0)
	create(ctx, t, c, "removed", spec, nil)
	remove("last", 30)
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := pods.Get(ctx, "last", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		t.Fatalf("the deleted pod stays: %v", err)
	}
	if _, err := pods.Get(ctx, "removed", metav1.GetOptions{}); err != nil {
		t.Errorf("the pod that got the name: %v", err)
	}
	remove("removed", 0)
}

func testFailAfter(t *testing.T, c *cluster.Cluster) {
	ctx := within(t, time.Minute)
	create(ctx, t, c, "fails", podSpec("cpu", "1"), map[string]string{kubelet.FailAfter: "100ms", kubelet.RunFor: "1h"})
	pod, _ := until(ctx, t, c, "fails", corev1.PodFailed, corev1.PodSucceeded)
	if pod.Status.Phase != corev1.PodFailed || pod.Status.ContainerStatuses[0].State.Terminated.ExitCode != 1 {
		t.Errorf("ended as %v", pod.Status)
	}

	// An annotation that is set later counts from the admission.
	create(ctx, t, c, "told-later", podSpec("cpu", "1"), nil)
	until(ctx, t, c, "told-later", corev1.PodRunning)
	if _, _, err := c.Kubectl(ctx, "annotate", "pod", "told-later", kubelet.RunFor+"=0s"); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, c, "told-later", corev1.PodSucceeded)

	// The deadline of the pod itself.
	spec := podSpec("cpu", "1")
	spec.ActiveDeadlineSeconds = new(int64(1))
	create(ctx, t, c, "outlasts", spec, map[string]string{kubelet.RunFor: "1h"})
	pod, _ = until(ctx, t, c, "outlasts", corev1.PodFailed, corev1.PodSucceeded)
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != kubelet.DeadlineExceeded {
		t.Errorf("ended as %v", pod.Status)
	}
}

func testOvercommit(t *testing.T, c *cluster.Cluster) {
	cases := map[string]struct {
		first, second []string
		want, message string
	}{
		"of CPU": {
			first: []string{"cpu", "3"}, second: []string{"cpu", "2"}, want: "OutOfcpu",
			message: "Pod was rejected: Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000",
		},
		"of memory": {
			first: []string{"memory", "8Gi"}, second: []string{"memory", "1"}, want: "OutOfmemory",
			message: "Pod was rejected: Node didn't have enough resource: memory, requested: 1, used: 8589934592, capacity: 8589934592",
		},
		"of an extended resource": {
			first: []string{"example.com/gpu", "1"}, second: []string{"example.com/gpu", "2"}, want: "OutOfexample.com/gpu",
			message: "Pod was rejected: Node didn't have enough resource: example.com/gpu, requested: 2, used: 1, capacity: 2",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx := within(t, time.Minute)
			names, err := c.AddNodes(ctx, cluster.Nodes{
				Count:       1,
				Name:        func(int) string { return "full-of-" + strings.ToLower(tc.want[len("OutOf"):][:3]) },
				Allocatable: objects.Amounts("cpu", "4", "memory", "8Gi", "example.com/gpu", "2"),
			})
			if err != nil {
				t.Fatal(err)
			}
			node := names[0]
			for i, r := range [][]string{tc.first, tc.second, tc.first} {
				spec := podSpec(r...)
				spec.SchedulerName = "none"
				create(ctx, t, c, fmt.Sprintf("%s-%d", node, i), spec, nil)
			}
			bind(ctx, t, c, node+"-0", node)
			until(ctx, t, c, node+"-0", corev1.PodRunning)
			bind(ctx, t, c, node+"-1", node)
			rejected, seen := until(ctx, t, c, node+"-1", corev1.PodFailed, corev1.PodRunning)
			if rejected.Status.Reason != tc.want || rejected.Status.Message != tc.message {
				t.Errorf("rejected for %q: %q", rejected.Status.Reason, rejected.Status.Message)
			}
			for _, phase := range seen[:len(seen)-1] {
				if phase != corev1.PodPending {
					t.Errorf("phases %v: it ran before it was rejected", seen)
				}
			}
			if _, _, err := c.Kubectl(ctx, "delete", "pod", node+"-0"); err != nil {
				t.Fatal(err)
			}
			bind(ctx, t, c, node+"-2", node)
			until(ctx, t, c, node+"-2", corev1.PodRunning) // in the released room
			if err := c.RemoveNodes(ctx, node); err != nil {
				t.Error(err)
			}
		})
	}
}

// testBurst binds many pods to a small node at once. As
// many run as fit, and none of the others ever runs.
func testBurst(t *testing.T, c *cluster.Cluster) {
	const pods, room = 40, 7
	ctx := within(t, time.Minute)
	nodes, err := c.AddNodes(ctx, cluster.Nodes{
		Count:       1,
		Name:        func(int) string { return "small" },
		Allocatable: objects.Amounts("cpu", "4", "memory", "8Gi", "pods", fmt.Sprint(room)),
	})
	if err != nil {
		t.Fatal(err)
	}
	spec := podSpec("cpu", "10m")
	spec.SchedulerName = "none"
	for i := range pods {
		create(ctx, t, c, fmt.Sprintf("burst-%d", i), spec, nil)
	}
	var g errgroup.Group
	for i := range pods {
		g.Go(func() error {
			b := &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("burst-%d", i)},
				Target:     corev1.ObjectReference{Kind: "Node", Name: nodes[0]},
			}
			return c.Client().CoreV1().Pods(corev1.NamespaceDefault).Bind(ctx, b, metav1.CreateOptions{})
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	ran, rejected := map[string]bool{}, map[string]bool{}
	err = cluster.Until(ctx, c.Client().CoreV1().Pods(corev1.NamespaceDefault), "spec.nodeName="+nodes[0],
		func(_ watch.EventType, pod *corev1.Pod) bool {
			switch pod.Status.Phase {
			case corev1.PodRunning:
				ran[pod.Name] = true
			case corev1.PodFailed:
				rejected[pod.Name] = pod.Status.Reason == "OutOfpods"
			default: // its kubelet has not decided yet
			}
			return len(ran)+len(rejected) >= pods
		})
	if err != nil {
		t.Fatal(err)
	}
	if len(ran) != room {
		t.Errorf("%d pods ran, want %d", len(ran), room)
	}
	for name, right := range rejected {
		if !right || ran[name] {
			t.Errorf("pod %s: rejected for the node's number of pods: %t, ran: %t", name, right, ran[name])
		}
	}
	if err := c.RemoveNodes(ctx, nodes...); err != nil {
		t.Error(err)
	}
}

func testNodes(t *testing.T, c *cluster.Cluster) {
	ctx := within(t, time.Minute)
	out, _, err := c.Kubectl(ctx, "get", "node", "node-0001", "-o",
		`jsonpath={.metadata.labels.rack} {.status.allocatable.example\.com/gpu} {.status.capacity.pods}`)
	if err != nil || out != "1 2 5" {
		t.Errorf("the node has %q (%v), want rack 1, 2 GPUs and 5 pods", out, err)
	}
	if _, err := c.AddNodes(ctx, cluster.Nodes{Count: 1}); err == nil || !strings.Contains(err.Error(), "node-0000") {
		t.Errorf("a second node-0000: %v", err)
	}
	names, err := c.AddNodes(ctx, cluster.Nodes{
		Count: 3,
		Name:  func(i int) string { return fmt.Sprintf("guest-%d", i) },
		Edit:  func(_ int, n *corev1.Node) { n.Spec.Unschedulable = true },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveNodes(ctx, names...); err != nil {
		t.Fatal(err)
	}
	if out, _, err := c.Kubectl(ctx, "get", "nodes", "-o", "name"); err != nil || strings.Contains(out, "guest") {
		t.Errorf("nodes %q (%v), want no guests", out, err)
	}
}

func testNamesake(t *testing.T, c *cluster.Cluster) {
	ctx := within(t, 2*time.Minute)
	nodes := c.Client().CoreV1().Nodes()
	namesake := cluster.Nodes{Count: 1, Name: func(int) string { return "namesake" }}
	if _, err := c.AddNodes(ctx, namesake); err != nil {
		t.Fatal(err)
	}
	first, err := nodes.Get(ctx, "namesake", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The garbage collector notices the end of the first node when the second one exists.
	collector := c.Process(cluster.KubeControllerManager)
	if err := collector.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := collector.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	})
	if err := c.RemoveNodes(ctx, "namesake"); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	g.Go(func() error {
		_, err := c.AddNodes(ctx, namesake) // waits for the controller manager too
		return err
	})
	err = cluster.Until(ctx, nodes, "metadata.name=namesake", func(e watch.EventType, node *corev1.Node) bool {
		return e != watch.Deleted && node.UID != first.UID && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := c.Client().CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, "namesake", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(lease.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == first.UID }) {
		t.Errorf("the lease will be deleted, for the first node owns it: %v", lease.OwnerReferences)
	}
	if err := collector.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	spec := podSpec("cpu", "1")
	spec.SchedulerName = "none"
	create(ctx, t, c, "of-the-second", spec, nil)
	bind(ctx, t, c, "of-the-second", "namesake")
	until(ctx, t, c, "of-the-second", corev1.PodRunning)
	if err := c.RemoveNodes(ctx, "namesake"); err != nil {
		t.Fatal(err)
	}
}

func testAudit(t *testing.T, c *cluster.Cluster) {
	ctx := within(t, time.Minute)
	spec := podSpec("cpu", "1")
	create(ctx, t, c, "audited", spec, nil)
	until(ctx, t, c, "audited", corev1.PodRunning)
	got := map[string]bool{}
	for e, err := range c.AuditEvents() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Stage == "RequestReceived" {
			t.Fatal("a request is recorded before its answer")
		}
		if o := e.ObjectRef; o != nil && o.Resource == "pods" && (o.Name == "audited" || e.Verb == "create" && o.Subresource == "") {
			got[strings.Join([]string{e.User.Username, e.Verb, o.Subresource, strings.SplitN(e.UserAgent, "/", 2)[0]}, " ")] = true
		}
	}
	for _, want := range []string{
		"admin create  fluence-cluster",
		"system:kube-scheduler create binding kube-scheduler",
		"fake-kubelet patch status fake-kubelet",
		"kwok patch status kwok",
	} {
		if !got[want] {
			t.Errorf("%q is not in the audit log: %v", want, got)
		}
	}
}

func testUsers(t *testing.T, c *cluster.Cluster) {
	ctx := within(t, time.Minute)
	path, err := c.KubeconfigFor("alice@example.com", "team a")
	if err != nil {
		t.Fatal(err)
	}
	as := func(args ...string) error {
		_, _, err := c.Kubectl(ctx, append(args, "--kubeconfig", path)...)
		return err
	}
	if err := as("get", "pods"); err == nil || !strings.Contains(err.Error(), `User "alice@example.com" cannot list resource "pods"`) {
		t.Errorf("get pods without a role: %v, want Forbidden", err)
	}
	if _, _, err := c.Kubectl(ctx, "create", "clusterrolebinding", "team-a", "--clusterrole=view", "--group=team a"); err != nil {
		t.Fatal(err)
	}
	if err := as("get", "pods"); err != nil {
		t.Errorf("get pods by the group's role: %v", err)
	}
	if err := as("delete", "pods", "--all"); err == nil {
		t.Error("delete pods by a role to view succeeded")
	}
	if again, err := c.KubeconfigFor("alice@example.com", "team a"); err != nil || again != path {
		t.Errorf("the same user again: %q, %v", again, err)
	}
	if other, err := c.KubeconfigFor("alice@example.com"); err != nil || other == path {
		t.Errorf("the same name without groups: %q, %v", other, err)
	}
}

func testRestart(t *testing.T, c *cluster.Cluster) {
	ctx := within(t, 2*time.Minute)
	for _, name := range []string{cluster.FakeKubelet, cluster.KubeAPIServer} {
		p := c.Process(name)
		if err := p.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.Restart(ctx, name); err != nil {
			t.Fatal(err)
		}
		if c.Process(name).PID() == p.PID() {
			t.Errorf("%s is the same process", name)
		}
	}
	create(ctx, t, c, "afterwards", podSpec("cpu", "1"), map[string]string{kubelet.RunFor: "0s"})
	until(ctx, t, c, "afterwards", corev1.PodSucceeded)
	if err := c.Restart(ctx, "fluence"); err == nil {
		t.Error("Restart() of no component succeeded")
	}
}
