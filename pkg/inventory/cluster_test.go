package inventory

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2/ktesting"

	"github.com/flux-k8s/fluence/pkg/engine"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/translate"
	controlplane "github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/kubelet"
	"github.com/flux-k8s/fluence/test/eventually"
)

// A live is an inventory between a real API server and an engine.
type live struct {
	*Inventory
	t      *testing.T
	client kubernetes.Interface
	fake   *matchtest.Fake
	pods   int
}

// TestTheEngineEqualsARealCluster follows another scheduler, the
// controller manager and kubelets, and restarts the engine meanwhile.
func TestTheEngineEqualsARealCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	c, err := controlplane.Start(t.Context(), controlplane.Config{
		StockScheduler: true,
		Nodes: controlplane.Nodes{
			Count:       4,
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("4"), corev1.ResourceMemory: apiresource.MustParse("8Gi")},
			Labels:      func(i int) map[string]string { return map[string]string{"rack": fmt.Sprintf("r%d", i/2)} },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	}()

	var epochs atomic.Uint64
	e, err := engine.New(engine.Options{Epoch: func() match.Epoch { return match.Epoch(epochs.Add(1)) }})
	if err != nil {
		t.Fatal(err)
	}
	l := &live{t: t, client: c.Client(), fake: matchtest.Spy(e)}
	before := l.create(6, nil)
	l.untilPods("spec.nodeName!=", len(before))

	factory := informers.NewSharedInformerFactory(l.client, 0)
	l.Inventory, err = New(Config{
		Engine: l.fake,
		Nodes:  factory.Core().V1().Nodes().Informer(),
		// This is stricter than in service: two seconds suffice.
		AuditEvery: 100 * time.Millisecond,
		DriftAfter: 2 * time.Second,
		OnDrift:    func(d Drift) { t.Errorf("the audit found %+v", d) },
		Pods:       factory.Core().V1().Pods().Informer(),
		Levels:     []translate.Level{{Type: "rack", Key: "rack"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error)
	factory.Start(ctx.Done())
	go func() { ended <- l.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		factory.Shutdown()
	}()

	l.expectEqual("pods of another scheduler, bound before the start", len(before))

	after := l.create(4, nil)
	l.expectEqual("pods of another scheduler, bound later", len(before)+len(after))

	ending := l.create(2, map[string]string{kubelet.RunFor: "1s"})
	l.untilPods("status.phase=Succeeded", len(ending))
	l.expectEqual("pods that ended", len(before)+len(after))

	for _, name := range before[:2] {
		if err := l.client.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	l.expectEqual("pods that were deleted", len(before)+len(after)-2)

	if err := c.RemoveNodes(t.Context(), "node-0003"); err != nil {
		t.Fatal(err)
	}
	l.expectEqual("a node that was deleted", -1)

	// The engine is gone, things happen, and it comes back empty.
	first := l.Epoch()
	calls := []matchtest.Method{
		matchtest.Release, matchtest.Update, matchtest.PutNode, matchtest.RemoveNode, matchtest.Reset, matchtest.Ready,
	}
	for _, m := range calls {
		l.fake.Fail(m, match.ErrUnavailable)
	}
	eventually.True(l.t.Context(), l.t, "the loss is seen", func(context.Context) (bool, string) { return l.Epoch() == 0, "not yet" })
	if err := l.client.CoreV1().Pods("default").Delete(t.Context(), before[2], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.create(1, nil)
	if _, err := e.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, m := range calls {
		l.fake.Fail(m, nil)
	}
	start := time.Now()
	eventually.True(l.t.Context(), l.t, "the engine is back in service", func(context.Context) (bool, string) { return l.Epoch() != 0, "not yet" })
	if took := time.Since(start); took > time.Second {
		t.Errorf("it took %v until the engine was back in service", took)
	}
	if l.Epoch() == first {
		t.Errorf("the engine was restarted, and the epoch is %d as before", first)
	}
	l.expectEqual("an engine that was restarted", -1)
}

// create creates pods of one core for the other scheduler and returns their names.
func (l *live) create(n int, annotations map[string]string) []string {
	l.t.Helper()
	var names []string
	for range n {
		l.pods++
		p := pod(fmt.Sprintf("p%d", l.pods), "", "", "1")
		p.Annotations = annotations
		p.Status = corev1.PodStatus{}
		var zero int64
		p.Spec.TerminationGracePeriodSeconds = &zero
		if _, err := l.client.CoreV1().Pods("default").Create(l.t.Context(), p, metav1.CreateOptions{}); err != nil {
			l.t.Fatal(err)
		}
		names = append(names, p.Name)
	}
	return names
}

// expectEqual waits until the engine equals the API server's state of the same
// time and, unless holding is negative, that number of pods hold something.
func (l *live) expectEqual(what string, holding int) {
	l.t.Helper()
	eventually.True(l.t.Context(), l.t, what, func(ctx context.Context) (bool, string) {
		nodes, pods, version := l.list(ctx)
		held := 0
		for _, p := range pods {
			if translate.Holds(p) {
				held++
			}
		}
		if holding >= 0 && held != holding {
			return false, fmt.Sprintf("%d pods hold something, want %d", held, holding)
		}
		differs, err := difference(ctx, l.Epoch(), l.fake, nodes, pods, nil, nil, nil)
		if err != nil {
			return false, err.Error() // not loaded yet, or lost once more
		}
		_, _, now := l.list(ctx)
		return differs == "" && now == version, differs
	})
}

// list reads nodes and pods, and a text that differs if a pod has changed.
func (l *live) list(ctx context.Context) (nodes []*corev1.Node, pods []*corev1.Pod, version string) {
	l.t.Helper()
	nodeList, err := l.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	podList, err := l.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range nodeList.Items {
		nodes = append(nodes, &nodeList.Items[i])
	}
	for i := range podList.Items {
		pods = append(pods, &podList.Items[i])
		version += podList.Items[i].Name + podList.Items[i].ResourceVersion + " "
	}
	return nodes, pods, version
}

// untilPods waits until so many pods have these fields.
func (l *live) untilPods(fields string, n int) {
	l.t.Helper()
	eventually.True(l.t.Context(), l.t, "pods with "+fields, func(ctx context.Context) (bool, string) {
		pods, err := l.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: fields})
		if err != nil {
			l.t.Fatal(err)
		}
		return len(pods.Items) == n, fmt.Sprintf("%d, want %d", len(pods.Items), n)
	})
}
