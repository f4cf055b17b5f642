package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/hostlist"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// cluster builds nodes in racks of 32, each with the pools of a GPU node.
func cluster(nodes int) []*resource.Graph {
	graphs := make([]*resource.Graph, nodes)
	for i := range graphs {
		levels := [][2]string{{"zone", "z"}, {"rack", fmt.Sprintf("r%03d", i/32)}}
		graphs[i] = matchtest.Node(fmt.Sprintf("n%05d", i), levels,
			matchtest.Cores(64), matchtest.Memory(256), matchtest.Pods(110), matchtest.GPUs(8))
	}
	return graphs
}

func loaded(b *testing.B, nodes int) (*driver, []*resource.Graph) {
	b.Helper()
	d := &driver{e: newEngine(b)}
	graphs := cluster(nodes)
	d.load(b, graphs...)
	return d, graphs
}

var pod = []matchtest.Pool{matchtest.Cores(1), matchtest.Memory(2), matchtest.Pods(1), matchtest.GPUs(1)}

// BenchmarkPools matches pods in a graph of nodes that were put.
func BenchmarkPools(b *testing.B) {
	for _, nodes := range []int{100, 1_000, 10_000} {
		for _, pods := range []int64{1, 256} {
			b.Run(fmt.Sprintf("pods=%d/nodes=%d", pods, nodes), func(b *testing.B) {
				d, _ := loaded(b, nodes)
				benchmark(b, d, matchtest.Slots("a", pods, pod...))
			})
		}
		// All nodes except the last are full: every node is read.
		b.Run(fmt.Sprintf("last/nodes=%d", nodes), func(b *testing.B) {
			d, _ := loaded(b, nodes)
			d.match(b, 1, matchtest.Slots("full", int64(nodes-1), matchtest.Cores(64), matchtest.GPUs(8)))
			benchmark(b, d, matchtest.Slots("a", 1, pod...))
		})
		// Constraints exclude a third of the nodes.
		b.Run(fmt.Sprintf("narrowed/nodes=%d", nodes), func(b *testing.B) {
			d, graphs := loaded(b, nodes)
			var ruledOut []string
			for i := range nodes / 3 {
				ruledOut = append(ruledOut, graphs[i].Vertices[3].Name)
			}
			benchmark(b, d, matchtest.Constrain(matchtest.Slots("a", 1, pod...), "a",
				jobspec.SlotAttributes{ConstraintsNow: matchtest.Not(matchtest.Hosts(ruledOut...))}))
		})
		// Another holder has all nodes except the last as a whole. Each has room for the pod.
		b.Run(fmt.Sprintf("others/nodes=%d", nodes), func(b *testing.B) {
			d, _ := loaded(b, nodes)
			full := d.request(1, matchtest.Slots("full", int64(nodes-1), matchtest.Cores(40)))
			full.Policy, full.Holder = match.PolicyLonodex, "others"
			if _, err := d.e.Match(b.Context(), full); err != nil {
				b.Fatal(err)
			}
			benchmark(b, d, matchtest.Slots("a", 1, pod...))
		})
		for _, policy := range match.Policies() {
			b.Run(fmt.Sprintf("policy=%s/nodes=%d", policy, nodes), func(b *testing.B) {
				d, _ := loaded(b, nodes)
				r := d.request(2, matchtest.Slots("a", 1, pod...))
				r.Policy, r.Holder = policy, "a"
				for b.Loop() {
					d.cycle(b, r)
				}
			})
		}
		b.Run(fmt.Sprintf("near/nodes=%d", nodes), func(b *testing.B) {
			d, graphs := loaded(b, nodes)
			r := d.request(2, matchtest.Slots("a", 1, pod...))
			r.Near = []string{graphs[nodes-1].Vertices[3].Name}
			for b.Loop() {
				d.cycle(b, r)
			}
		})
		b.Run(fmt.Sprintf("shapes=2/nodes=%d", nodes), func(b *testing.B) {
			d, _ := loaded(b, nodes)
			benchmark(b, d, matchtest.Jobspec(
				matchtest.Slot("worker", jobspec.Exactly(255), pod...),
				matchtest.Slot("leader", jobspec.Exactly(1), matchtest.Cores(16), matchtest.Memory(64), matchtest.Pods(1)),
			))
		})
		b.Run(fmt.Sprintf("refused=busy/nodes=%d", nodes), func(b *testing.B) {
			d, _ := loaded(b, nodes)
			d.match(b, 1, matchtest.Slots("full", int64(nodes), matchtest.Cores(64), matchtest.GPUs(8)))
			refuse(b, d, matchtest.Slots("a", 256, pod...), match.ErrBusy)
		})
		b.Run(fmt.Sprintf("refused=never/nodes=%d", nodes), func(b *testing.B) {
			d, _ := loaded(b, nodes)
			refuse(b, d, matchtest.Slots("a", 1, matchtest.Cores(65), matchtest.Pods(1)), match.ErrUnsatisfiable)
		})
	}
}

// BenchmarkRefuseSearched makes the most expensive request: two shapes fit by amounts, but a search
// finds no placement.
func BenchmarkRefuseSearched(b *testing.B) {
	for _, nodes := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			d, _ := loaded(b, nodes)
			n := int64(nodes)
			refuse(b, d, matchtest.Jobspec(
				matchtest.Slot("x", jobspec.Exactly(n), matchtest.Cores(40), matchtest.Memory(10)),
				matchtest.Slot("y", jobspec.Exactly(n/2+1), matchtest.Cores(20), matchtest.Memory(250)),
			), match.ErrBusy, match.ErrUnsatisfiable)
		})
	}
}

func BenchmarkPutNode(b *testing.B) {
	d, graphs := loaded(b, 10_000)
	for i := 0; b.Loop(); i++ {
		if err := d.e.PutNode(b.Context(), d.epoch, graphs[i%len(graphs)]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPutNodes fills a graph of 5,000 nodes and 50,000 pods.
func BenchmarkPutNodes(b *testing.B) {
	graphs := cluster(5_000)
	jobs := make([]match.Job, 50_000)
	for i := range jobs {
		jobs[i] = match.Job{ID: match.JobID(i + 1), Slots: []match.Slot{
			matchtest.Held("pod", graphs[i%len(graphs)].Vertices[3].Name, pod...),
		}}
	}
	for b.Loop() {
		d := &driver{e: newEngine(b)}
		d.load(b, graphs...)
		if err := d.e.Update(b.Context(), d.epoch, jobs...); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmark(b *testing.B, d *driver, js *jobspec.Jobspec) {
	r := d.request(2, js)
	b.ReportAllocs()
	for b.Loop() {
		d.cycle(b, r)
	}
}

// cycle matches and releases once.
func (d *driver) cycle(b *testing.B, r match.Request) {
	if _, err := d.e.Match(b.Context(), r); err != nil {
		b.Fatal(err)
	}
	if err := d.e.Release(b.Context(), d.epoch, r.ID); err != nil {
		b.Fatal(err)
	}
}

func refuse(b *testing.B, d *driver, js *jobspec.Jobspec, want ...error) {
	r := d.request(2, js)
	b.ReportAllocs()
	for b.Loop() {
		_, err := d.e.Match(b.Context(), r)
		ok := false
		for _, w := range want {
			ok = ok || errors.Is(err, w)
		}
		if !ok {
			b.Fatalf("Match() = %v, want one of %v", err, want)
		}
	}
}

// manyLists requests one slot with this number of limits, each with three host lists.
func manyLists(nodes, limits int) *jobspec.Jobspec {
	js := matchtest.Slots("a", 1, matchtest.Cores(1))
	for k := range limits {
		lists := make([][]string, 3)
		for i := range nodes {
			at := (i / (k + 1)) % 3
			lists[at] = append(lists[at], fmt.Sprintf("n%05d", i))
		}
		l := jobspec.Limit{Name: fmt.Sprint(k), Most: 1}
		for _, n := range lists {
			l.Hosts = append(l.Hosts, hostlist.Encode(n))
		}
		matchtest.Limited(js, "a", l)
	}
	return js
}

// BenchmarkOthersWait measures the longest time that another call waits while a match takes much
// work. The goal is less than 100 ms on 5,000 nodes.
func BenchmarkOthersWait(b *testing.B) {
	const nodes = 5000
	for name, js := range map[string]*jobspec.Jobspec{
		"limits":     costly(nodes),
		"searched":   searched(nodes),
		"hosts":      manyLists(nodes, 40),
		"many-hosts": manyLists(nodes, 200),
	} {
		b.Run(name, func(b *testing.B) {
			d := &driver{e: newEngine(b)}
			d.load(b, cluster(nodes)...)
			var most time.Duration
			for b.Loop() {
				stop, done := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(done)
					for {
						began := time.Now()
						_ = d.e.Release(context.Background(), 0, 0)
						most = max(most, time.Since(began))
						select {
						case <-stop:
							return
						case <-time.After(time.Millisecond):
						}
					}
				}()
				r := d.request(1, js)
				r.Op = match.WithoutAllocating
				_, err := d.e.Match(b.Context(), r)
				close(stop)
				<-done
				var no *match.Refusal
				if err != nil && !errors.As(err, &no) {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(most)/1e6, "ms-waited")
		})
	}
}
