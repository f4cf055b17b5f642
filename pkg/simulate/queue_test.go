package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/objects"
	"github.com/flux-k8s/fluence/test/trials"
)

// drawnQueue is a cluster with groups of random sizes, priorities and creation times. Some have gated pods,
// pods of several priorities, too few pods, or no PodGroup. Some have started and lack members.
func drawnQueue(rng *rand.Rand) (c Cluster, pods []*corev1.Pod) {
	at := func() time.Time { return time.Unix(int64(rng.IntN(6)), 0) }
	priorities := []int32{0, 0, 10, 1000}
	for i := range 3 + rng.IntN(10) {
		name, priority, mixed := fmt.Sprintf("g%02d", i), priorities[rng.IntN(4)], rng.IntN(4) == 0
		size := 1 + rng.IntN(5)
		minimum := 1 + rng.IntN(size)
		lone := rng.IntN(6) == 0
		bound := max(0, rng.IntN(size+4)-4)
		for k := range size - rng.IntN(8)/7 {
			pod := objects.Pod(fmt.Sprintf("%s-%d", name, k), objects.Created(at()), objects.CPU(fmt.Sprint(1+rng.IntN(2))))
			if !lone {
				objects.InGroup(name)(pod)
			}
			if mixed && bound == 0 {
				// Which of several waiting pods takes the place of a lost one depends on which came first.
				priority = priorities[rng.IntN(4)]
			}
			pod.Spec.Priority = new(priority)
			switch {
			case k < bound:
				objects.OnNode("n0")(pod)
				pod.Status.Phase = corev1.PodRunning
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
			case rng.IntN(12) == 0:
				pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
			}
			pods = append(pods, pod)
		}
		if lone || rng.IntN(10) == 0 {
			continue
		}
		pg := podGroup(name, int32(minimum))
		pg.CreationTimestamp = metav1.NewTime(at())
		c.PodGroups = append(c.PodGroups, pg)
	}
	rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	c.Objects = append(c.Objects, objects.ReadyNode("n0", 64))
	for _, pod := range pods {
		c.Objects = append(c.Objects, pod)
	}
	return c, pods
}

// inGroup returns the name of the PodGroup of a pod, or the name of the pod.
func inGroup(pod *corev1.Pod) string { return cmp.Or(pod.Labels[group.Label], pod.Name) }

// asks returns the groups for which the scheduler takes pods from its queue, in that order.
func asks(ctx context.Context, t *testing.T, c Cluster, configuration Configuration) (names []string) {
	t.Helper()
	api, err := newFakeAPI(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := build(ctx, fake.NewClientset(c.Objects...), api, configuration, func() bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	for range r.sched.SchedulingQueue.PodsInActiveQ() {
		e, err := r.sched.SchedulingQueue.Pop(klog.FromContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, inGroup(e.(interface{ GetPodInfo() fwk.PodInfo }).GetPodInfo().GetPod()))
	}
	return names
}

func TestQueueIsTheOrderInWhichTheSchedulerAsks(t *testing.T) {
	shipped, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	groups, longest := 0, 0
	for seed := range trials.Seeds(40) {
		c, pods := drawnQueue(rand.New(rand.NewPCG(seed, 2)))
		var want []string
		inBubble(t, func(t *testing.T, ctx context.Context) { want = asks(ctx, t, copied(c), shipped) })
		order, err := Queue(pods, c, Owners{}, shipped, time.Unix(100, 0))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range order {
			got = append(got, inGroup(g.Pod))
		}
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: the order differs from the scheduler's (-scheduler +function):\n%s", seed, gocmp.Diff(want, got))
		}
		groups, longest = groups+len(want), max(longest, len(want))
	}
	if groups < 40 || longest < 5 {
		t.Errorf("%d groups asked, at most %d in one queue: too few to compare", groups, longest)
	}
	t.Logf("%d groups asked, at most %d in one queue", groups, longest)
}
