package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// occupiedBy returns an engine with this many nodes of 64 cores, 40 in a rack, and the units of the pods on them. The pods come as
// units of 1 to 64 in five classes, and leave no node room for a pod of 16 cores.
func occupiedBy(t testing.TB, nodes int, most int) (*driver, []match.Unit) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	d := &driver{e: newEngine(t)}
	var graphs []*resource.Graph
	free := make([]int64, nodes)
	for i := range nodes {
		free[i] = 64
		graphs = append(graphs, matchtest.Node(fmt.Sprintf("n%05d", i), [][2]string{{"rack", fmt.Sprintf("r%03d", i/40)}},
			matchtest.Cores(64), matchtest.Memory(256), matchtest.Pods(110)))
	}
	d.load(t, graphs...)
	var jobs []match.Job
	var units []match.Unit
	pods, sizes := 0, []int{1, 1, 1, 1, 2, 4, 8, 16, 32, 64}
	at := 0
	for misses := 0; pods < most && misses < 4*nodes; {
		job := match.Job{ID: match.JobID(len(jobs) + 10)}
		ref := match.SlotRef{Job: job.ID}
		each := 3 + r.Int64N(8)
		for range sizes[r.IntN(len(sizes))] {
			at = (at + 1) % nodes
			if free[at] < each {
				misses++
				continue
			}
			free[at] -= each
			misses = 0
			key := fmt.Sprint(len(job.Slots))
			job.Slots = append(job.Slots, matchtest.Held(key, fmt.Sprintf("n%05d", at), matchtest.Cores(each), matchtest.Memory(each), matchtest.Pods(1)))
			ref.Keys = append(ref.Keys, key)
			pods++
		}
		if len(job.Slots) == 0 {
			continue
		}
		jobs = append(jobs, job)
		units = append(units, match.Unit{Slots: []match.SlotRef{ref}, Class: r.Int32N(5), Cost: r.Int64N(1000)})
	}
	if err := d.e.Update(t.Context(), d.epoch, jobs...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes, %d pods, %d units", nodes, pods, len(units))
	return d, units
}

// BenchmarkDisplace measures the choice of the units that have to go for a gang. The goals are 60 ms for the median and 250 ms
// for the 99th percentile with 5,000 nodes and 50,000 pods, and 1 s with 2,000 nodes and 700 units that have to go.
func BenchmarkDisplace(b *testing.B) {
	worker := []matchtest.Pool{matchtest.Cores(16), matchtest.Memory(32), matchtest.Pods(1)}
	half := []matchtest.Pool{matchtest.Cores(8), matchtest.Memory(8), matchtest.Pods(1)}
	cases := []struct {
		name  string
		nodes int
		pods  int
		js    *jobspec.Jobspec
	}{
		{"gang", 5000, 50_000, matchtest.Slots("w", 256, worker...)},
		{"rack", 5000, 50_000, matchtest.Together(matchtest.Slots("w", 256, half...), jobspec.Topology{Required: "rack"})},
		{"shapes", 5000, 50_000, matchtest.Jobspec(matchtest.Slot("d", jobspec.Exactly(1), matchtest.Cores(32)), matchtest.Slot("w", jobspec.Exactly(255), worker...))},
		{"spread", 5000, 50_000, matchtest.Constrain(matchtest.Slots("w", 256, worker...), "w", jobspec.SlotAttributes{MaxPerLevel: map[string]int64{"node": 1, "rack": 4}})},
		{"many", 2000, 50_000, matchtest.Slots("w", 700, worker...)},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			d, units := occupiedBy(b, c.nodes, c.pods)
			r := d.request(1, c.js)
			r.Op, r.Displace = match.WithoutAllocating, units
			var took []time.Duration
			var a *match.Allocation
			for b.Loop() {
				began := time.Now()
				var err error
				if a, err = d.e.Match(b.Context(), r); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
			gangs, slots := 0, 0
			top := int32(0)
			for _, u := range a.Displaced {
				if units[u].Class > top {
					top, gangs, slots = units[u].Class, 0, 0
				}
				if n := len(units[u].Slots[0].Keys); units[u].Class == top {
					slots += n
					if n > 1 {
						gangs++
					}
				}
			}
			b.Logf("displaced %d units; in the highest class, %d: %d gangs, %d pods", len(a.Displaced), top, gangs, slots)
		})
	}
}
