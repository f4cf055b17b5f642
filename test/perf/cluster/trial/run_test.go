package trial_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/flux-k8s/fluence/test/cluster"
	"github.com/flux-k8s/fluence/test/eventually"
	"github.com/flux-k8s/fluence/test/perf/cluster/backlog"
	"github.com/flux-k8s/fluence/test/perf/cluster/contender"
	"github.com/flux-k8s/fluence/test/perf/cluster/gauge"
	"github.com/flux-k8s/fluence/test/perf/cluster/report"
	"github.com/flux-k8s/fluence/test/perf/cluster/trial"
	"github.com/flux-k8s/fluence/test/stack"
)

// hasty does not wait for rest, because the measurements here are not compared.
func hasty() trial.Timing {
	calm := gauge.Calm{Share: 100, For: 100 * time.Millisecond}
	return trial.Timing{Before: calm, After: calm, Patience: time.Minute}
}

func TestRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute) // the first call builds
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{
		FeatureGates:  map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true},
		RuntimeConfig: map[string]bool{"scheduling.k8s.io/v1beta1": true},
		Nodes:         cluster.Nodes{Count: 4, Labels: func(i int) map[string]string { return map[string]string{backlog.RackLabel: fmt.Sprint(i / 2)} }},
		NoAudit:       true, NoKubelet: true, NoPodStages: true, NoHeartbeat: true,
		Log: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	bench, err := trial.NewBench(ctx, c, trial.Config{
		Args: map[string]any{"matchPolicy": "low", "topologyLevels": []any{backlog.RackLabel}}, Timing: hasty(), Log: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("every contender binds all", func(t *testing.T) { testContenders(t, bench) })
	t.Run("schedulers are configured alike", func(t *testing.T) { testConfigurations(t, c) })
	t.Run("some come while others are bound", func(t *testing.T) { testArrivals(t, bench) })
	t.Run("a gang is in one rack", func(t *testing.T) { testRacks(t, c, bench) })
	t.Run("they come in a stream", func(t *testing.T) { testStream(t, bench) })
	t.Run("they evict others", func(t *testing.T) { testPreempting(t, bench) })
	t.Run("they wait for room", func(t *testing.T) { testRoom(t, bench) })
	t.Run("one that never does it is late", func(t *testing.T) { testLate(t, bench) })
	t.Run("one that ends is told of", func(t *testing.T) { testEnded(t, c, bench) })
	t.Run("nothing goes on behind an interruption", func(t *testing.T) { testInterrupted(t, c, bench) })
}

// plan returns a plan of 16 pods with an amount of CPU in gangs of 4.
func plan(spec contender.Spec, cpu string) trial.Plan {
	return trial.Plan{Contender: spec, Pods: 16, Size: 4, CPU: resource.MustParse(cpu), Limit: time.Minute}
}

func testContenders(t *testing.T, bench *trial.Bench) {
	system := map[string]float64{"kube-scheduler/workload-high": 16}
	ours := map[string]float64{"fluence/workload-high": 16, "fluence-leader-election/leader-election": 1}
	all := []string{"apiserver", "bench", "etcd", "kcm", "kwok"}
	cases := map[string]struct {
		spec      contender.Spec
		processes []string
		gangs     int
		// levels are the minimum numbers of requests at
		// each level. writes are the writes for each pod.
		levels map[string]float64
		writes []string
		// more is how many more there may be for each pod.
		more float64
	}{
		"ceiling": {
			spec: contender.Ceiling(8), processes: []string{"binder"}, gangs: 4,
			levels: system, writes: []string{"POST pods/binding"},
		},
		"ceiling-like": {
			spec: contender.CeilingLike(8, false), processes: []string{"binder"}, gangs: 4,
			levels: system, writes: []string{"POST pods/binding"},
		},
		"ceiling-like-events": {
			spec: contender.CeilingLike(8, true), processes: []string{"binder"}, gangs: 4,
			levels: system, writes: []string{"POST pods/binding", "POST events.events.k8s.io"},
		},
		"stock": {
			spec: contender.Stock(), processes: []string{"scheduler"},
			levels: system, writes: []string{"POST pods/binding"},
		},
		"native": {
			spec: contender.Native(), processes: []string{"scheduler"}, gangs: 4,
			levels: system, writes: []string{"POST pods/binding"},
		},
		"fluence": {
			spec: contender.Fluence(), processes: []string{"controller", "scheduler", "sidecar"}, gangs: 4,
			levels: ours, writes: []string{"POST pods/binding"},
		},
		"fluence with events": {
			spec: contender.FluenceEvents(), processes: []string{"controller", "scheduler", "sidecar"}, gangs: 4,
			levels: ours, writes: []string{"POST pods/binding", "POST events.events.k8s.io"}, more: 0.5, // two for each group
		},
		"fluence alone": {
			spec: contender.FluenceAlone(), processes: []string{"controller", "scheduler", "sidecar"},
			levels: ours, writes: []string{"POST pods/binding"},
		},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		tc := cases[name]
		t.Run(name, func(t *testing.T) {
			f, err := bench.Run(t.Context(), plan(tc.spec, "1"))
			if err != nil {
				t.Fatal(err)
			}
			if f.Outcome != report.AllBound || f.Bound != 16 || f.FirstBind <= 0 || f.LastBind < f.FirstBind || f.PodsPerSecond <= 0 {
				t.Errorf("figures: %+v", f)
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(append(tc.processes, all...))), slices.Sorted(maps.Keys(f.CPU))); diff != "" {
				t.Errorf("processes whose CPU time is told (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.processes, slices.Sorted(maps.Keys(f.Peak))); diff != "" {
				t.Errorf("processes whose memory is told (-want +got):\n%s", diff)
			}
			for name, bytes := range f.Peak {
				if bytes < 1<<20 {
					t.Errorf("%s has used %d bytes at the most", name, bytes)
				}
			}
			if got := f.Gangs; (got == nil) != (tc.gangs == 0) || got != nil && got.Count != tc.gangs {
				t.Errorf("gangs: %+v, want %d", got, tc.gangs)
			}
			for _, write := range tc.writes {
				// The last event may be written after the run.
				if n := f.Writes[write]; n < 0.9 || n > 1+tc.more {
					t.Errorf("%v %s for each pod, want 1 to %v", n, write, 1+tc.more)
				}
			}
			for level, n := range tc.levels {
				if f.Dispatched[level] < n {
					t.Errorf("requests let through: %v, want %v by %s", f.Dispatched, n, level)
				}
			}
		})
	}
}

// testConfigurations checks the configurations with which the schedulers were started.
func testConfigurations(t *testing.T, c *cluster.Cluster) {
	read := func(file string) map[string]any {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(c.Dir(), file))
		if err != nil {
			t.Fatal(err)
		}
		var config map[string]any
		if err := yaml.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		return config
	}
	ours, theirs := read("fluence-scheduler.yaml"), read("bench-kube-scheduler.yaml")
	if got := stack.PluginArgs(ours)["matchPolicy"]; got != "low" {
		t.Errorf("matchPolicy: %v, want what was asked for", got)
	}
	election := map[string]any{"leaderElect": true, "resourceName": "fluence-scheduler", "resourceNamespace": "fluence-system"}
	if diff := cmp.Diff(any(election), ours["leaderElection"]); diff != "" {
		t.Errorf("leader election of Fluence, with the defaults of kube-scheduler (-want +got):\n%s", diff)
	}
	connections := [2]map[string]any{}
	for i, config := range []map[string]any{ours, theirs} {
		connections[i] = config["clientConnection"].(map[string]any)
		delete(connections[i], "kubeconfig")
	}
	if diff := cmp.Diff(connections[0], connections[1]); diff != "" {
		t.Errorf("limits of the API client (-Fluence +kube-scheduler):\n%s", diff)
	}
}

func testArrivals(t *testing.T, bench *trial.Bench) {
	p := plan(contender.Fluence(), "1")
	p.Arrivals = []trial.Arrival{{Name: "urgent", Pods: 2, Urgent: true, After: 0.25}, {Name: "lone", Pods: 1, After: 0.5}}
	f, err := bench.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if f.Outcome != report.AllBound || f.Bound != 19 || len(f.Arrivals) != 2 {
		t.Fatalf("figures: %+v", f)
	}
	if a := f.Arrivals[0]; a.Name != "urgent" || a.Pods != 2 || a.Before < 4 || a.After < a.Before || a.Last < a.First || a.Last == 0 {
		t.Errorf("the gang: %+v", a)
	}
	if a := f.Arrivals[1]; a.Name != "lone" || a.Pods != 1 || a.Before < 10 {
		t.Errorf("the lone pod: %+v", a)
	}
}

// Two racks have 16 CPUs each. Without racks no contender places two gangs of 12 like that.
func testRacks(t *testing.T, c *cluster.Cluster, bench *trial.Bench) {
	for _, spec := range []contender.Spec{contender.Native(), contender.Fluence()} {
		t.Run(spec.Name, func(t *testing.T) {
			p := plan(spec, "1")
			p.Pods, p.Size, p.Rack = 24, 12, true
			f, err := bench.Run(t.Context(), p)
			if err != nil || f.Outcome != report.AllBound {
				t.Fatalf("Run() = %+v, %v", f, err)
			}
			pods, err := c.Client().CoreV1().Pods("bench").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			racks := map[string]map[string]bool{}
			for _, pod := range pods.Items {
				node, err := c.Client().CoreV1().Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				gang := pod.Name[:strings.LastIndexByte(pod.Name, '-')]
				if racks[gang] == nil {
					racks[gang] = map[string]bool{}
				}
				racks[gang][node.Labels[backlog.RackLabel]] = true
			}
			if len(racks) != 2 {
				t.Fatalf("gangs: %v, want two", racks)
			}
			for gang, in := range racks {
				if len(in) != 1 {
					t.Errorf("%s is in racks %v, want one", gang, in)
				}
			}
		})
	}
}

// A gang that needs all of the four nodes evicts the ten pods of priority 0 on each.
func testPreempting(t *testing.T, bench *trial.Bench) {
	for _, spec := range []contender.Spec{contender.Native(), contender.Fluence()} {
		t.Run(spec.Name, func(t *testing.T) {
			p := plan(spec, "7940m")
			p.Pods, p.Low = 4, 10
			f, err := bench.Run(t.Context(), p)
			if err != nil || f.Outcome != report.AllBound || f.Preemption == nil {
				t.Fatalf("Run() = %+v, %v", f, err)
			}
			if p := *f.Preemption; p.Victims != 40 || p.First <= 0 || p.Last < p.First || p.Bound < p.Last {
				t.Errorf("%+v, want 40 victims, and times in order", p)
			}
		})
	}
}

// The nodes of the cluster stay full after that.
func testRoom(t *testing.T, bench *trial.Bench) {
	p := plan(contender.Fluence(), "1")
	p.Pods, p.Room = 32, 16
	f, err := bench.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if f.Outcome != report.AllBound || f.Bound != 16 || f.Gangs.Count != 4 || f.FirstBind <= 0 || f.Quiet == 0 {
		t.Errorf("figures: %+v", f)
	}
	if got := f.Writes["POST nodes"]; got != 2.0/16 {
		t.Errorf("%v nodes are added for each bound pod, want 2 for 16", got)
	}
	if got := f.Writes["POST pods"]; got != 0 {
		t.Errorf("%v pods are created for each bound pod, want none after the beginning", got)
	}
}

func testStream(t *testing.T, bench *trial.Bench) {
	p := plan(contender.Fluence(), "100m")
	p.Stream = &trial.Stream{Share: 0.5, For: 4 * time.Second, Seed: 1}
	f, err := bench.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	s := f.Stream
	if f.Outcome != report.AllBound || s == nil || s.Rate != s.Highest/2 || s.Gangs*4 != f.Bound || s.P50 > s.P99 || s.Worst == 0 {
		t.Fatalf("figures: %+v with stream %+v", f, s)
	}
	for _, write := range []string{"POST pods", "POST pods/binding", "DELETE pods"} {
		if n := f.Writes[write]; n != 1 {
			t.Errorf("%v %s for each pod, want 1", n, write)
		}
	}
	q := p
	q.Contender = contender.Fluence().As("another")
	q.Stream = &trial.Stream{Share: 0.5, RateOf: "fluence", For: 4 * time.Second, Seed: 1}
	again, err := bench.Run(t.Context(), q)
	if err != nil || again.Stream == nil || again.Stream.Rate != s.Rate {
		t.Errorf("at the same rate: %+v, %v", again.Stream, err)
	}
	q.Stream = &trial.Stream{Share: 0.5, RateOf: "nobody", For: time.Second}
	unknown, err := bench.Run(t.Context(), q)
	if err != nil || unknown.Outcome != report.Late || !strings.Contains(unknown.Why, "nobody") {
		t.Errorf("at the rate of one that has not run: %+v, %v", unknown, err)
	}
}

// No node has nine CPUs.
func testLate(t *testing.T, bench *trial.Bench) {
	p := plan(contender.Native(), "9")
	p.Limit = 2 * time.Second
	f, err := bench.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if f.Outcome != report.Late || !strings.Contains(f.Why, "2s") || f.Bound != 0 {
		t.Errorf("figures: %+v", f)
	}
}

func testEnded(t *testing.T, c *cluster.Cluster, bench *trial.Bench) {
	p := plan(contender.Fluence(), "9")
	var f report.Figures
	g, ctx := errgroup.WithContext(t.Context())
	g.Go(func() (err error) {
		f, err = bench.Run(ctx, p)
		return err
	})
	g.Go(func() error { return kill(ctx, c, "fluence-sidecar", "fluence-scheduler") })
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if f.Outcome != report.Ended || !strings.HasPrefix(f.Why, "sidecar ended (signal: killed)") {
		t.Errorf("figures: %+v", f)
	}
}

// kill waits until two processes run that were not there before, and ends the first. It runs in a
// goroutine, which must not end the test as eventually.True does.
func kill(ctx context.Context, c *cluster.Cluster, name, other string) error {
	was, before := c.Process(name), c.Process(other)
	return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		p, o := c.Process(name), c.Process(other)
		if p == nil || p == was || p.PeakMemory() == 0 || o == nil || o == before || o.PeakMemory() == 0 {
			return false, nil
		}
		return true, p.Kill(ctx)
	})
}

func testInterrupted(t *testing.T, c *cluster.Cluster, bench *trial.Bench) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const name = "bench-kube-scheduler"
	was := c.Process(name)
	var g errgroup.Group
	g.Go(func() error {
		_, err := bench.Run(ctx, plan(contender.Native(), "9"))
		return err
	})
	eventually.True(ctx, t, "a scheduler of the bench", func(context.Context) (bool, string) { return c.Process(name) != was, "none" })
	cancel()
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("Run() = %v, want it canceled", err)
	}
	select {
	case <-c.Process(name).Done():
	default:
		t.Error("the scheduler runs on")
	}
}
