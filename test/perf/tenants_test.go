package perf

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/flux-k8s/fluence/pkg/group"
	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/cluster/kubelet"
	"github.com/flux-k8s/fluence/test/stack"
)

const (
	// tenantNodes is the number of nodes, of 8 CPUs each.
	tenantNodes = 100
	// steadyGroups is the number of groups of gang pods that arrive
	// in a turn, one every arrival. They take a tenth of the room.
	steadyGroups = 200
	arrival      = 250 * time.Millisecond
	// turnPatience bounds one turn.
	turnPatience = 5 * time.Minute
)

var (
	// rounds is how often each attack, and the case without an attack, is measured.
	rounds = flag.Int("rounds", 3, "how often each attack is measured")
	// some are the names of the attacks that are measured.
	some = flag.String("attacks", "", "the attacks that are measured, with commas between them; none is all")
)

// An attack is what one author of pods does to all others,
// with only the right to create pods in one namespace.
type attack struct {
	name string
	// groups is the number of groups. size is the number of pods in each.
	groups, size int
	// anew makes groups be deleted and created again, one after another.
	anew bool
	// unscheduled gives the pods a scheduler that does not exist, and no group.
	// So they burden others only through the API server and the machine.
	unscheduled bool
	// pod makes the i-th pod of a group hard to place.
	// The pod has a label app with the group's name.
	pod func(i int, p *corev1.Pod)
}

// attacks are the attacks that are measured, and turns that are no attacks: as many pods that fit
// and are easy to place, as many that start without a scheduler, and as many that never start.
var attacks = []attack{
	{name: "spreads", groups: 3, size: 20, pod: spreads},
	{name: "many-groups-with-spreads", groups: 40, size: 20, pod: spreads},
	{name: "pods-that-repel-each-other", groups: 1, size: 400, pod: func(i int, p *corev1.Pod) {
		// Each pod of one half repels each pod of the other, by a label of its half.
		half := 200
		anti := &corev1.PodAntiAffinity{}
		for j := range half {
			pair := fmt.Sprintf("p%d-%d", i%half, j)
			if i >= half {
				pair = fmt.Sprintf("p%d-%d", j, i%half)
				p.Labels[pair] = "x"
				continue
			}
			anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{
				TopologyKey:   corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{pair: "x"}},
			})
		}
		if i < half {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: anti}
		}
	}},
	{name: "a-kind-for-each-pod", groups: 4, size: 250, pod: func(i int, p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(i+1), resource.DecimalSI)
	}},
	{name: "a-kind-for-each-pod-that-waits", groups: 4, size: tenantNodes, pod: func(i int, p *corev1.Pod) {
		needsAllNodes(i, p)
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(int64(i+1)<<20, resource.BinarySI)
	}},
	{name: "a-thousand-pods-that-fit", groups: 4, size: 250, pod: func(int, *corev1.Pod) {}},
	{name: "whole-nodes", groups: 1, size: tenantNodes, pod: func(_ int, p *corev1.Pod) {
		p.Annotations = map[string]string{group.ExclusiveAnnotation: "true"}
	}},
	{name: "room-that-never-comes", groups: 1, size: tenantNodes, pod: needsAllNodes},
	{name: "a-thousand-groups-made-anew", groups: 1000, size: 4, anew: true, pod: spreads},
	{name: "a-thousand-groups-that-wait-made-anew", groups: 1000, size: 4, anew: true, pod: func(i int, p *corev1.Pod) {
		spreads(i, p)
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("9")
	}},
	{name: "four-thousand-pods-that-fit-made-anew", groups: 1000, size: 4, anew: true, pod: func(int, *corev1.Pod) {}},
	{name: "as-many-pods-with-a-node-made-anew", groups: 1000, size: 4, anew: true, unscheduled: true, pod: func(_ int, p *corev1.Pod) {
		name := fnv.New32a()
		fmt.Fprint(name, p.Name)
		p.Spec.NodeName = tenantNode(int(name.Sum32() % tenantNodes))
	}},
	{name: "as-many-pods-of-no-scheduler", groups: 1000, size: 4, anew: true, unscheduled: true, pod: spreads},
}

// tenantNode is the name of the i-th node.
func tenantNode(i int) string { return fmt.Sprintf("tenants-%03d", i) }

// needsAllNodes makes each pod of a group request a whole node.
// There is never room for as many pods as there are nodes.
func needsAllNodes(_ int, p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("8")
}

// spreads gives a pod eight spread constraints with individual skews, over labels that nodes have.
func spreads(i int, p *corev1.Pod) {
	for k := range 8 {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			TopologyKey: fmt.Sprintf("l%d", k), MaxSkew: int32(i + 2), WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}},
		})
	}
}

// BenchmarkOtherTenants measures how an attack by another tenant affects others. Groups of eight
// pods arrive steadily, and for each it takes the seconds from the creation of the last pod
// until the last pod runs. 99 of 100 groups take at most s/p99-NAME during the attack of that
// name, and s/p99-alone without any. Of these seconds s/p99-bound-NAME pass until the last pod is
// bound. The rest is the time of the simulated kubelets. Each figure is the median of all rounds,
// and each round has a turn of every measured attack. Pods that fit start, whoever created them,
// and later pods wait for their binds. So an attack costs only what it takes beyond as many pods
// that fit. The first turn is not measured, because the programs have just started.
func BenchmarkOtherTenants(b *testing.B) {
	c, err := cluster.Start(b.Context(), cluster.Config{Log: os.Stderr, NoAudit: true, NoHeartbeat: true, Nodes: cluster.Nodes{
		Count: tenantNodes,
		Name:  tenantNode,
		Labels: func(i int) map[string]string {
			labels := map[string]string{}
			for k := range 8 {
				labels[fmt.Sprintf("l%d", k)] = fmt.Sprint((i/(k+1) + k) % (7 + k))
			}
			return labels
		},
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	s, err := stack.Start(b.Context(), c, stack.Config{Args: map[string]any{"maxBypass": "10s"}})
	if err != nil {
		b.Fatal(err)
	}
	for name := range strings.SplitSeq(*some, ",") {
		if name != "" && !slices.ContainsFunc(attacks, func(a attack) bool { return a.name == name }) {
			b.Fatalf("-attacks: there is no %q", name)
		}
	}
	if *rounds < 1 {
		b.Fatalf("-rounds: %d, want at least 1", *rounds)
	}
	for b.Loop() {
		turn(b, s, "warm-up", attack{})
		bound, ran := map[string][]time.Duration{}, map[string][]time.Duration{}
		for round := range *rounds {
			for i, a := range append([]attack{{name: "alone"}}, attacks...) {
				if i > 0 && *some != "" && !slices.Contains(strings.Split(*some, ","), a.name) {
					continue
				}
				toBind, toRun := turn(b, s, fmt.Sprintf("turn-%d-%d", round, i), a)
				b.Logf("round %d, %s: p99 %v, bound %v", round+1, a.name, toRun, toBind)
				bound[a.name], ran[a.name] = append(bound[a.name], toBind), append(ran[a.name], toRun)
			}
		}
		for name := range ran {
			b.ReportMetric(median(ran[name]).Seconds(), "s/p99-"+name)
			b.ReportMetric(median(bound[name]).Seconds(), "s/p99-bound-"+name)
		}
	}
	b.ReportMetric(0, "ns/op")
}

func median(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }

// turn measures the steady groups during an attack, in new namespaces.
// It returns what steady returns. An attack without groups is no attack.
func turn(b *testing.B, s *stack.Stack, name string, a attack) (bound, ran time.Duration) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), turnPatience)
	defer cancel()
	for _, ns := range []string{name, name + "-hostile"} {
		if _, err := s.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		defer emptyNamespace(b, s, ns)
	}
	if a.groups == 0 {
		return steady(ctx, b, s, name)
	}
	if err := a.begin(ctx, s, name+"-hostile"); err != nil {
		b.Fatal(err)
	}
	attacking, stop := context.WithCancel(ctx)
	var g errgroup.Group
	if a.anew {
		g.Go(func() error { return a.again(attacking, s, name+"-hostile") })
	}
	bound, ran = steady(ctx, b, s, name)
	stop()
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	return bound, ran
}

// steady makes groups arrive in a namespace. It returns the 99th percentile of the times from
// the creation of the last pod until the last pod is bound, and until the last pod runs.
func steady(ctx context.Context, b *testing.B, s *stack.Stack, ns string) (bound, ran time.Duration) {
	b.Helper()
	pods := s.Client().CoreV1().Pods(ns)
	var mu sync.Mutex
	made := map[string]time.Time{}
	isBound, runs := newMilestone(), newMilestone()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return cluster.Until(gctx, pods, "", func(_ watch.EventType, p *corev1.Pod) bool {
			if p.Spec.NodeName != "" {
				isBound.add(p)
			}
			if p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodSucceeded {
				runs.add(p)
			}
			return len(runs.reached) == steadyGroups
		})
	})
	g.Go(func() error {
		tick := time.NewTicker(arrival)
		defer tick.Stop()
		for i := range steadyGroups {
			name := fmt.Sprintf("steady-%03d", i)
			g.Go(func() error {
				if err := createPods(gctx, s, ns, name, gang, func(_ int, p *corev1.Pod) {
					p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
					p.Annotations = map[string]string{kubelet.RunFor: "4s"}
				}); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				made[name] = time.Now()
				return nil
			})
			select {
			case <-tick.C:
			case <-gctx.Done():
				return gctx.Err()
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		b.Fatalf("%d of %d groups ran: %v", len(runs.reached), steadyGroups, err)
	}
	return isBound.p99(made), runs.p99(made)
}

// A milestone records when all pods of each group have reached it.
type milestone struct {
	// pods are the pods of each group that have reached it.
	pods map[string]map[string]bool
	// reached is when the last pod of each group reached it.
	reached map[string]time.Time
}

func newMilestone() milestone {
	return milestone{pods: map[string]map[string]bool{}, reached: map[string]time.Time{}}
}

// add records that a pod has reached the milestone.
func (m milestone) add(p *corev1.Pod) {
	name := p.Labels[group.Label]
	if m.pods[name] == nil {
		m.pods[name] = map[string]bool{}
	}
	m.pods[name][p.Name] = true
	if len(m.pods[name]) == gang && m.reached[name].IsZero() {
		m.reached[name] = time.Now()
	}
}

// p99 returns the 99th percentile of the times until the groups reached the milestone.
func (m milestone) p99(since map[string]time.Time) time.Duration {
	var took []time.Duration
	for name, at := range m.reached {
		took = append(took, at.Sub(since[name]))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// createPods creates a group of small bare pods.
func createPods(ctx context.Context, s *stack.Stack, ns, name string, size int, edit func(i int, p *corev1.Pod)) error {
	for i := range size {
		p := pod(podName(name, i), "fluence")
		p.Labels = map[string]string{"app": name, group.Label: name, group.SizeLabel: fmt.Sprint(size)}
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
		edit(i, p)
		if _, err := s.Client().CoreV1().Pods(ns).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create pod %s/%s: %w", ns, p.Name, err)
		}
	}
	return nil
}

// podName is the name of the i-th pod of a group.
func podName(group string, i int) string { return fmt.Sprintf("%s-%d", group, i) }

// make edits the i-th pod of a group as the attack demands.
func (a *attack) make(i int, p *corev1.Pod) {
	a.pod(i, p)
	if a.unscheduled {
		p.Spec.SchedulerName = "nobody"
		delete(p.Labels, group.Label)
		delete(p.Labels, group.SizeLabel)
	}
}

func (a *attack) groupName(i int) string { return fmt.Sprintf("attack-%04d", i) }

// begin creates the groups of an attack. A pod that runs
// for ever is in the way of an attack that needs all nodes.
func (a *attack) begin(ctx context.Context, s *stack.Stack, ns string) error {
	if err := createPods(ctx, s, ns, "service", 1, func(int, *corev1.Pod) {}); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for i := range a.groups {
		g.Go(func() error { return createPods(gctx, s, ns, a.groupName(i), a.size, a.make) })
	}
	return g.Wait()
}

// again deletes groups and creates them again, five a second, until ctx is done.
func (a *attack) again(ctx context.Context, s *stack.Stack, ns string) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		name := a.groupName(i % a.groups)
		for j := range a.size {
			// One by one: to delete them by their label, the API server would read all pods of the namespace.
			err := s.Client().CoreV1().Pods(ns).Delete(ctx, podName(name, j), *metav1.NewDeleteOptions(0))
			if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				return fmt.Errorf("delete pod %s/%s: %w", ns, podName(name, j), err)
			}
		}
		if err := createPods(ctx, s, ns, name, a.size, a.make); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// emptyNamespace deletes a namespace's pods and returns when they are gone. Of very many the API
// server deletes some in each request, and says that the time was not enough for the rest. The
// benchmark goes on if they stay, which it would not do after eventually.True.
func emptyNamespace(b *testing.B, s *stack.Stack, ns string) {
	b.Helper()
	pods := s.Client().CoreV1().Pods(ns)
	var deleting error
	err := wait.PollUntilContextTimeout(b.Context(), time.Second, turnPatience, true, func(ctx context.Context) (bool, error) {
		list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(list.Items) == 0 {
			return true, nil
		}
		deleting = pods.DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{})
		return false, nil
	})
	if err != nil {
		b.Errorf("the pods of namespace %s are not gone: %v; deleted last: %v", ns, err, deleting)
	}
}
