package perf

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/objects"
	"github.com/flux-k8s/fluence/test/stack"
)

const (
	// podsPerNode is how many pods of one CPU fill a node.
	podsPerNode = 10
	// gang is the size of the group that waits for the restart. That
	// many nodes have room for one more pod, and no others have.
	gang = 8
	// writers is the number of objects created at a time.
	writers = 32
	// restartPatience bounds the wait for the first bind after a restart.
	restartPatience = 5 * time.Minute
)

// BenchmarkRestart starts sidecar and scheduler on a cluster that is full, except for the
// room of one waiting group. It measures the seconds from the start of the two processes
// until the group's first pod has a node (s/first-bind) and until its last pod has one
// (s/group). It also measures the seconds to fill the sidecar's graph (s/replay). The
// lease of the earlier scheduler has run out by then, because its duration is a setting.
//
// Flow 21 of the lessons of earlier systems.
func BenchmarkRestart(b *testing.B) {
	for _, nodes := range []int{500, 5_000} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", nodes, nodes*podsPerNode), func(b *testing.B) { restart(b, nodes) })
	}
}

func restart(b *testing.B, nodes int) {
	ctx := b.Context()
	c := startAPI(b)
	s, err := stack.Install(ctx, c, stack.Config{WithoutWebhook: true, Profile: withoutElection})
	if err != nil {
		b.Fatal(err)
	}
	begin := time.Now()
	room := fill(b, c, nodes)
	b.Logf("%d nodes with %d pods in %s", nodes, nodes*podsPerNode-len(room), time.Since(begin).Round(time.Second))
	waitingGroup(b, s)

	var firstBind, whole, replay time.Duration
	for b.Loop() {
		makeGang(b, c)
		start := time.Now()
		for _, f := range []func(context.Context) error{s.StartSidecar, s.StartScheduler} {
			if err := f(ctx); err != nil {
				b.Fatal(err)
			}
		}
		first, all, on := bound(b, c)
		firstBind += first.Sub(start)
		whole += all.Sub(start)
		for _, node := range on {
			if !slices.Contains(room, node) {
				b.Errorf("a pod of the group is on node %s, which was full", node)
			}
		}
		replay += replayed(b, s)

		b.StopTimer()
		for _, name := range []string{stack.Scheduler, stack.Sidecar} {
			if err := s.Process(name).Kill(ctx); err != nil {
				b.Fatal(err)
			}
		}
		clearGang(b, c)
		b.StartTimer()
	}
	n := float64(b.N)
	b.ReportMetric(firstBind.Seconds()/n, "s/first-bind")
	b.ReportMetric(whole.Seconds()/n, "s/group")
	b.ReportMetric(replay.Seconds()/n, "s/replay")
	b.ReportMetric(0, "ns/op")
}

// withoutElection makes the scheduler begin at once.
func withoutElection(config map[string]any) {
	config["leaderElection"].(map[string]any)["leaderElect"] = false
}

func startAPI(b *testing.B) *cluster.Cluster {
	b.Helper()
	c, err := cluster.Start(b.Context(), cluster.Config{APIOnly: true, Log: os.Stderr})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return c
}

// fill creates nodes of podsPerNode CPUs and pods that are bound to them. It
// returns the nodes with room for one more pod, which are the last by name.
func fill(b *testing.B, c *cluster.Cluster, nodes int) (room []string) {
	b.Helper()
	ctx := b.Context()
	name := func(i int) string { return fmt.Sprintf("node-%05d", i) }
	for i := nodes - gang; i < nodes; i++ {
		room = append(room, name(i))
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for i := range nodes {
		g.Go(func() error { return addNode(gctx, c, name(i)) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	g, gctx = errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for i := range nodes * podsPerNode {
		node := name(i / podsPerNode)
		if i%podsPerNode == 0 && slices.Contains(room, node) {
			continue
		}
		g.Go(func() error {
			p := pod(fmt.Sprintf("fill-%06d", i), "default-scheduler")
			p.Spec.NodeName = node
			_, err := c.Client().CoreV1().Pods(corev1.NamespaceDefault).Create(gctx, p, metav1.CreateOptions{})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	return room
}

// addNode creates a ready node. Admission taints every new
// node, and the controller that removes the taint does not run.
func addNode(ctx context.Context, c *cluster.Cluster, name string) error {
	node, err := c.Client().CoreV1().Nodes().Create(ctx, objects.ReadyNode(name, podsPerNode, func(n *corev1.Node) {
		n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("64Gi")
		n.Status.Conditions[0].Reason = "Ready"
	}), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create node %s: %w", name, err)
	}
	node.Spec.Taints = nil
	if _, err := c.Client().CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("take the taint off node %s: %w", name, err)
	}
	return nil
}

// pod returns a pod that requests one CPU.
func pod(name, scheduler string) *corev1.Pod {
	return objects.Pod(name, objects.In(""), objects.Asking("cpu", "1", "memory", "1Gi"), func(p *corev1.Pod) {
		p.Spec.SchedulerName = scheduler
		// Not what every pod is given a copy of.
		p.Spec.AutomountServiceAccountToken = new(bool)
	})
}

// waitingGroup creates the PodGroup of the gang, as its user may.
func waitingGroup(b *testing.B, s *stack.Stack) {
	b.Helper()
	if _, _, err := s.Kubectl(b.Context(), "create", "-f", "testdata/podgroup.yaml"); err != nil {
		b.Fatal(err)
	}
}

func makeGang(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	for i := range gang {
		p := pod(fmt.Sprintf("gang-%d", i), "fluence")
		p.Labels = map[string]string{group.Label: "gang"}
		if _, err := c.Client().CoreV1().Pods(corev1.NamespaceDefault).Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// bound waits until all pods of the gang have nodes. It returns
// when the first and the last got theirs, and the nodes.
func bound(b *testing.B, c *cluster.Cluster) (first, last time.Time, nodes []string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), restartPatience)
	defer cancel()
	on := map[string]string{}
	err := cluster.Until(ctx, c.Client().CoreV1().Pods(corev1.NamespaceDefault), "spec.schedulerName=fluence", func(_ watch.EventType, p *corev1.Pod) bool {
		if p.Spec.NodeName != "" && on[p.Name] == "" {
			on[p.Name] = p.Spec.NodeName
			nodes = append(nodes, p.Spec.NodeName)
			last = time.Now()
			if first.IsZero() {
				first = last
			}
		}
		return len(on) == gang
	})
	if err != nil {
		b.Fatalf("%d of %d pods were bound: %v", len(on), gang, err)
	}
	return first, last, nodes
}

func clearGang(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	for i := range gang {
		if err := c.Client().CoreV1().Pods(corev1.NamespaceDefault).Delete(b.Context(), fmt.Sprintf("gang-%d", i), *metav1.NewDeleteOptions(0)); err != nil {
			b.Fatal(err)
		}
	}
}

var filled = regexp.MustCompile(`"Loaded the graph".* took="([^"]+)"`)

// replayed returns how long it took to fill the sidecar's graph, according to the scheduler.
func replayed(b *testing.B, s *stack.Stack) time.Duration {
	b.Helper()
	text, err := os.ReadFile(s.Process(stack.Scheduler).Log())
	if err != nil {
		b.Fatal(err)
	}
	all := filled.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		b.Fatal("the scheduler does not say that it has filled the graph")
	}
	took := string(all[len(all)-1][1])
	d, err := time.ParseDuration(took)
	if err != nil {
		seconds, err := strconv.ParseFloat(took, 64)
		if err != nil {
			b.Fatalf("the scheduler took %q to fill the graph", took)
		}
		d = time.Duration(seconds * float64(time.Second))
	}
	return d
}
