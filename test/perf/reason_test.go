package perf

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/flux-k8s/fluence/pkg/group"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/stack"
)

const (
	// reasonNodes is the number of nodes of the cluster in which groups wait.
	reasonNodes = 5_000
	// membersTold is the number of pods of each group.
	membersTold = 8
	// completing is the number of groups that become complete at a time.
	completing = 2
	// toldPatience bounds the wait for the last reason.
	toldPatience = 5 * time.Minute
)

// leftFree is what is free, in CPUs, on the nodes that are not full.
var leftFree = []int64{9, 7, 6, 5, 4, 3, 2, 1}

// BenchmarkReason creates 500 groups of 8 pods, a few at a time, on 5,000 nodes.
// The nodes have room for some pods of each group, or could never have room for
// them. It measures the milliseconds from just before a group's last pod is created
// until its PodGroup is seen with a reason (ms/p50, ms/p99, ms/most). It fails if a
// reason differs from the benchmark's arithmetic on the objects of the API.
func BenchmarkReason(b *testing.B) {
	ctx := b.Context()
	c := startAPI(b)
	s, err := stack.Install(ctx, c, stack.Config{
		WithoutWebhook: true, Profile: withoutElection,
		// The duration must not be part of the message.
		Args: map[string]any{"maxBypass": "24h"},
	})
	if err != nil {
		b.Fatal(err)
	}
	crowd(b, c)
	client, err := dynamic.NewForConfig(s.RESTConfig())
	if err != nil {
		b.Fatal(err)
	}
	groups := client.Resource(scheduling.PodGroups).Namespace(corev1.NamespaceDefault)
	for _, start := range []func(context.Context) error{s.StartSidecar, s.StartScheduler} {
		if err := start(ctx); err != nil {
			b.Fatal(err)
		}
	}
	// The first group waits until the graph is filled.
	makeTold(b, c, groups, []int{0})

	for round := 1; b.Loop(); round++ {
		all := make([]int, waitingGroups)
		for i := range all {
			all[i] = round*waitingGroups + i
		}
		took, said := makeTold(b, c, groups, all)
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "ms/p50")
		b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "ms/p99")
		b.ReportMetric(float64(took[len(took)-1].Milliseconds()), "ms/most")
		b.ReportMetric(float64(checkReasons(b, c, said)), "wrong")
	}
	b.ReportMetric(0, "ns/op")
}

// crowd creates nodes with two pods each: a DaemonSet's pod of one CPU,
// and a pod that takes the rest. The first nodes keep leftFree free.
func crowd(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	begin := time.Now()
	g, ctx := errgroup.WithContext(b.Context())
	g.SetLimit(writers)
	for i := range reasonNodes {
		g.Go(func() error {
			node := fmt.Sprintf("node-%05d", i)
			if err := addNode(ctx, c, node); err != nil {
				return err
			}
			daemon := sized(pod("agent-"+node, "default-scheduler"), 1)
			daemon.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
			pods := []*corev1.Pod{daemon}
			rest := int64(podsPerNode - 1)
			if i < len(leftFree) {
				rest -= leftFree[i]
			}
			if rest > 0 {
				pods = append(pods, sized(pod("fill-"+node, "default-scheduler"), rest))
			}
			for _, p := range pods {
				p.Spec.NodeName = node
				if _, err := c.Client().CoreV1().Pods(corev1.NamespaceDefault).Create(ctx, p, metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d nodes in %s", reasonNodes, time.Since(begin).Round(time.Second))
}

func sized(p *corev1.Pod, cpus int64) *corev1.Pod {
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewQuantity(cpus, resource.DecimalSI)
	return p
}

// cpusOf returns the CPU request of a group's pods.
// There is always room for some, and never for all.
func cpusOf(i int) int64 { return 4 + int64(i)%7 }

// saying is the reason and the message of a group.
type saying struct {
	cpus            int64
	reason, message string
}

// makeTold creates these groups, and waits until each has
// a reason. It returns the durations and the reasons.
func makeTold(b *testing.B, c *cluster.Cluster, groups dynamic.ResourceInterface, which []int) ([]time.Duration, []saying) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), toldPatience)
	defer cancel()
	var mu sync.Mutex
	complete, cpus := map[string]time.Time{}, map[string]int64{}
	made, gctx := errgroup.WithContext(ctx)
	made.SetLimit(completing + 1)
	var took []time.Duration
	var said []saying
	changes, err := groups.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer changes.Stop()
	made.Go(func() error {
		for event := range changes.ResultChan() {
			u, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type == watch.Error {
				return fmt.Errorf("watch PodGroups: %v", event.Object)
			}
			seen := time.Now()
			reason, message := stated(u)
			mu.Lock()
			if begin, ok := complete[u.GetName()]; ok && reason != "" {
				took = append(took, seen.Sub(begin))
				said = append(said, saying{cpus[u.GetName()], reason, message})
				delete(complete, u.GetName())
			}
			all := len(took) == len(which)
			mu.Unlock()
			if all {
				return nil
			}
		}
		return fmt.Errorf("watch PodGroups: it ended: %w", ctx.Err())
	})
	for _, i := range which {
		made.Go(func() error {
			name := fmt.Sprintf("told-%03d", i)
			return createGroup(gctx, c, groups, name, cpusOf(i), func(at time.Time) {
				mu.Lock()
				defer mu.Unlock()
				complete[name], cpus[name] = at, cpusOf(i)
			})
		})
	}
	if err := made.Wait(); err != nil {
		b.Fatalf("%d of %d groups were told why they wait: %v", len(took), len(which), err)
	}
	return took, said
}

// createGroup creates a PodGroup and its pods. It calls completes before the last pod.
func createGroup(ctx context.Context, c *cluster.Cluster, groups dynamic.ResourceInterface, name string, cpus int64, completes func(time.Time)) error {
	pg := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": scheduling.GroupVersion.String(), "kind": "PodGroup",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"minMember": int64(membersTold)},
	}}
	if _, err := groups.Create(ctx, pg, metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range membersTold {
		p := sized(pod(fmt.Sprintf("%s-%d", name, i), "fluence"), cpus)
		p.Labels = map[string]string{group.Label: name}
		if i == membersTold-1 {
			completes(time.Now())
		}
		if _, err := c.Client().CoreV1().Pods(corev1.NamespaceDefault).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// stated returns a PodGroup's reason and message about room, "" if it has none.
func stated(u *unstructured.Unstructured) (reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, obj := range conditions {
		if c, ok := obj.(map[string]any); ok && c["type"] == "Scheduled" && (c["reason"] == "NoRoom" || c["reason"] == "NeverFits") {
			return fmt.Sprint(c["reason"]), fmt.Sprint(c["message"])
		}
	}
	return "", ""
}
