package podgroup_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/flux-k8s/fluence/pkg/controller/podgroup"
	scheduling "github.com/flux-k8s/fluence/sig-scheduler-plugins/scheduling/v1alpha1"
	"github.com/flux-k8s/fluence/test/cluster"
)

var jobsFlag = flag.Int("jobs", 50, "how many Jobs of 8 pods come at once")

const (
	// writers is how many objects these tests create, or bind, at a time.
	writers = 32
	// podsOnANode is how many pods a node of these tests holds.
	podsOnANode = 1000
)

// A burst is Jobs that are created at once, and what the controller did for them.
type burst struct {
	jobs, pods int
	// groups is the time from the first Job until all PodGroups existed.
	// running is the time from the first bind of a pod until all PodGroups
	// were Running. all is the time from the first Job until then.
	groups, running, all time.Duration
	// looks is the number of reconciles, and writes the number of writes.
	looks, writes int
}

// mostLooks is the largest number of reconciles that is allowed. Pod events cause four
// reconciles of a group in a second. Events of its Job and its PodGroup cause the others.
func (b burst) mostLooks() int { return b.jobs * (4*int(b.all.Seconds()+1) + 12) }

// burst creates this many Jobs of this many pods, and binds the pods as a scheduler does. A
// test that calls it must not be parallel to others, because it would count their reconciles.
func (e *env) burst(jobs, size int) burst {
	e.Helper()
	nodes := e.roomFor(jobs * size)
	before, start := e.looks(), time.Now()
	e.forEach(jobs, func(i int) error {
		return e.client.Create(e.ctx, e.newJob(fmt.Sprintf("j%03d", i), int32(size), ""))
	})
	b := burst{jobs: jobs, pods: jobs * size}
	e.groups(jobs, "")
	b.groups = time.Since(start)
	pods := e.newPods(b.pods)

	bound := time.Now()
	e.forEach(b.pods, func(i int) error {
		return shared.Client().CoreV1().Pods(e.ns).Bind(e.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: e.ns, Name: pods[i]},
			Target:     corev1.ObjectReference{Kind: "Node", Name: nodes[i/podsOnANode]},
		}, metav1.CreateOptions{})
	})
	e.groups(jobs, scheduling.PodGroupRunning)
	b.running, b.all = time.Since(bound), time.Since(start)
	b.looks = e.looks() - before
	b.writes, _, _ = e.writes()
	e.Logf("%d Jobs of %d: their PodGroups were there after %s, and running %s after the first bind; %.1f looks at a group and %.2f writes; %.2f looks for a pod",
		jobs, size, b.groups.Round(time.Millisecond), b.running.Round(time.Millisecond), float64(b.looks)/float64(jobs), float64(b.writes)/float64(jobs), float64(b.looks)/float64(b.pods))
	return b
}

// patient lets no status be written for numbers alone, however slow the machine is.
func patient(c *podgroup.Config) { c.CountDelay, c.StatusDelay = time.Hour, time.Hour }

// This test comes before the test of many Jobs, because the
// controllers of later tests reconcile the groups of earlier tests.
func TestALargeGangCostsAFewLooks(t *testing.T) {
	e := newEnv(t, patient)
	b := e.burst(1, 250)
	if b.writes > 3 {
		t.Errorf("%d writes to a PodGroup, want no more than three", b.writes)
	}
	if most := b.mostLooks(); b.looks > most {
		t.Errorf("%d looks at a group whose pods came and ran in %s, want no more than %d", b.looks, b.all, most)
	}
}

// Each group has about thirty events within a second: its Job and its pods are created, and
// the pods are bound and run.
func TestManyJobsAtOnce(t *testing.T) {
	e := newEnv(t, patient)
	b := e.burst(*jobsFlag, 8)
	if b.writes > 3*b.jobs {
		t.Errorf("%d writes to %d PodGroups, want no more than three for each", b.writes, b.jobs)
	}
	if most := b.mostLooks(); b.looks > most {
		t.Errorf("%d looks at %d groups whose pods came and ran in %s, want no more than %d", b.looks, b.jobs, b.all, most)
	}
}

// looks returns how often the controllers of this process have reconciled a group.
func (e *env) looks() int {
	e.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		e.Fatal(err)
	}
	n := 0.0
	for _, f := range families {
		if f.GetName() == "controller_runtime_reconcile_total" {
			for _, m := range f.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return int(n)
}

// roomFor adds nodes for this many pods, and returns their names.
func (e *env) roomFor(pods int) []string {
	e.Helper()
	names, err := shared.AddNodes(e.ctx, cluster.Nodes{
		Count:       (pods + podsOnANode - 1) / podsOnANode,
		Name:        func(i int) string { return fmt.Sprintf("%s-%d", e.ns, i) },
		Allocatable: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(podsOnANode, resource.DecimalSI)},
	})
	if err != nil {
		e.Fatal(err)
	}
	return names
}

func (e *env) forEach(n int, do func(i int) error) {
	e.Helper()
	var g errgroup.Group
	g.SetLimit(writers)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	if err := g.Wait(); err != nil {
		e.Fatal(err)
	}
}

// groups waits until this many PodGroups are in a phase. An empty phase is any phase.
func (e *env) groups(n int, phase scheduling.PodGroupPhase) {
	e.Helper()
	there := map[string]bool{}
	for e.ctx.Err() == nil { // a busy API server ends a watch that is slow
		w, err := e.client.Watch(e.ctx, &scheduling.PodGroupList{}, client.InNamespace(e.ns))
		if err != nil {
			e.Fatalf("watch pod groups: %v", err)
		}
		for ev := range w.ResultChan() {
			if pg, is := ev.Object.(*scheduling.PodGroup); is && (phase == "" || pg.Status.Phase == phase) {
				there[pg.Name] = true
			}
			if len(there) == n {
				w.Stop()
				return
			}
		}
	}
	e.Fatalf("%d PodGroups are in phase %q, want %d", len(there), phase, n)
}

// newPods waits until the namespace has this many pods.
func (e *env) newPods(n int) []string {
	e.Helper()
	names := map[string]bool{}
	err := cluster.Until(e.ctx, shared.Client().CoreV1().Pods(e.ns), "", func(_ watch.EventType, pod *corev1.Pod) bool {
		names[pod.Name] = true
		return len(names) == n
	})
	if err != nil {
		e.Fatalf("wait for %d pods: %v", n, err)
	}
	return slices.Sorted(maps.Keys(names))
}
