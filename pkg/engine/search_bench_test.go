package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
	"github.com/flux-k8s/fluence/pkg/resource"
)

// BenchmarkSearchOfAFullCluster requests groups of several shapes on nodes that each have a little
// left. No two nodes have the same left.
func BenchmarkSearchOfAFullCluster(b *testing.B) {
	for _, nodes := range []int{64, 1_000, 10_000} {
		for shapes := 2; shapes <= 5; shapes++ {
			for _, part := range []int64{99, 104} {
				b.Run(fmt.Sprintf("nodes=%d/shapes=%d/part=%d", nodes, shapes, part), func(b *testing.B) {
					benchmarkFull(b, nodes, shapes, part)
				})
			}
		}
	}
}

// benchmarkFull requests part percent of the slots for which a first try, node by node, finds room.
func benchmarkFull(b *testing.B, nodes, shapes int, part int64) {
	b.Helper()
	r := rand.New(rand.NewPCG(uint64(nodes), uint64(shapes)))
	var graphs []*resource.Graph
	var held []match.Slot
	each := []amount{{7000, 9 * matchtest.GiB, 0}, {3000, 30 * matchtest.GiB, 0}, {2000, 5 * matchtest.GiB, 1}, {12000, 20 * matchtest.GiB, 2}, {1500, 2 * matchtest.GiB, 0}}[:shapes]
	counts := make([]int64, shapes)
	size := amount{64000, 256 * matchtest.GiB, 8}
	for i := range nodes {
		name := fmt.Sprintf("n%05d", i)
		left := amount{r.Int64N(20000), r.Int64N(60 * matchtest.GiB), r.Int64N(3)}
		graphs = append(graphs, matchtest.Node(name, nil, size.pools()...))
		held = append(held, matchtest.Held(name, name, size.plus(-1, left).pools()...))
		for range 8 {
			if s := r.IntN(shapes); left.holds(each[s]) > 0 {
				left = left.plus(-1, each[s])
				counts[s]++
			}
		}
	}
	d := &driver{e: newEngine(b)}
	d.load(b, graphs...)
	if err := d.e.Update(b.Context(), d.epoch, match.Job{ID: 99, Slots: held}); err != nil {
		b.Fatal(err)
	}
	js := matchtest.Jobspec()
	for s, n := range counts {
		var need []matchtest.Pool
		for _, pool := range each[s].pools() {
			if pool.Amount > 0 {
				need = append(need, pool)
			}
		}
		js.Resources = append(js.Resources, matchtest.Slot(fmt.Sprint(s), jobspec.Exactly(max(1, n*part/100)), need...))
	}
	found := 0.0
	q := d.request(1, js)
	q.Op = match.WithoutAllocating
	for b.Loop() {
		switch _, err := d.e.Match(b.Context(), q); {
		case err == nil:
			found = 1
		case !errors.Is(err, match.ErrBusy) && !errors.Is(err, match.ErrUnsatisfiable):
			b.Fatal(err)
		}
	}
	b.ReportMetric(found, "found")
}
