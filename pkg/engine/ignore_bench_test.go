package engine_test

import (
	"fmt"
	"testing"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// filled returns an engine with 5,000 nodes and this number of jobs, each with this number of pods.
// It also returns the ids of the jobs.
func filled(t testing.TB, jobs, pods int) (*driver, []match.JobID) {
	t.Helper()
	const nodes = 5000
	d := &driver{e: newEngine(t)}
	d.load(t, cluster(nodes)...)
	held, ids := make([]match.Job, jobs), make([]match.JobID, jobs)
	for i := range held {
		ids[i] = match.JobID(i + 10)
		held[i].ID = ids[i]
		for k := range pods {
			node := fmt.Sprintf("n%05d", (i*pods+k)*7919%nodes)
			held[i].Slots = append(held[i].Slots, matchtest.Held(fmt.Sprint(k), node, matchtest.Cores(1), matchtest.Memory(2), matchtest.Pods(1)))
		}
	}
	if err := d.e.Update(t.Context(), d.epoch, held...); err != nil {
		t.Fatal(err)
	}
	return d, ids
}

// BenchmarkIgnore measures the match of a pod that ignores many jobs. The match holds the lock
// meanwhile: the goal is less than 100 ms.
func BenchmarkIgnore(b *testing.B) {
	for _, of := range [][2]int{{10, 1}, {50_000, 1}, {130_000, 1}, {2_500, 100}} {
		b.Run(fmt.Sprintf("jobs=%d/pods=%d", of[0], of[1]), func(b *testing.B) {
			d, ids := filled(b, of[0], of[1])
			r := d.request(1, matchtest.Slots("a", 1, pod...))
			r.Op, r.Ignore = match.WithoutAllocating, ids
			began := processorTime()
			for b.Loop() {
				if _, err := d.e.Match(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processorTime()-began)/1e6/float64(b.N), "ms-of-processors/op")
		})
	}
}
