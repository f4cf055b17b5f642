package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// crowded returns a cluster with one job on every node. All jobs end at different times.
func crowded(b *testing.B, nodes int) *driver {
	b.Helper()
	d, _ := loaded(b, nodes)
	for i := range nodes {
		r := d.request(match.JobID(i+1), matchtest.Slots("full", 1, matchtest.Cores(64), matchtest.GPUs(8)))
		// The order in which the nodes become free differs from their own order.
		r.Duration = time.Duration(1+i*7919%nodes) * time.Minute
		if _, err := d.e.Match(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	return d
}

// BenchmarkReserve reserves for a job that waits for the end of many others.
func BenchmarkReserve(b *testing.B) {
	for _, nodes := range []int{100, 1_000, 10_000} {
		for _, ends := range []int{1, nodes / 2} {
			b.Run(fmt.Sprintf("ends=%d/nodes=%d", ends, nodes), func(b *testing.B) {
				d := crowded(b, nodes)
				r := d.request(match.JobID(nodes+1), matchtest.Slots("a", int64(8*ends), pod...))
				r.Op, r.Duration = match.AllocateOrElseReserve, time.Hour
				for b.Loop() {
					d.cycle(b, r)
				}
			})
		}
	}
}

// BenchmarkBackfill matches a pod while there are reservations: one for many nodes, or many for one
// node each.
func BenchmarkBackfill(b *testing.B) {
	for _, nodes := range []int{1_000, 10_000} {
		for _, wide := range []bool{true, false} {
			const promised = 100
			b.Run(fmt.Sprintf("wide=%v/nodes=%d", wide, nodes), func(b *testing.B) {
				d := crowded(b, nodes)
				jobs, each := promised, int64(8)
				if wide {
					jobs, each = 1, 8*promised
				}
				for i := range jobs {
					r := d.request(match.JobID(2*nodes+i), matchtest.Slots("a", each, pod...))
					r.Op, r.Duration = match.AllocateOrElseReserve, time.Hour
					if _, err := d.e.Match(b.Context(), r); err != nil {
						b.Fatal(err)
					}
				}
				if err := d.e.Release(b.Context(), d.epoch, match.JobID(nodes)); err != nil {
					b.Fatal(err)
				}
				r := d.request(match.JobID(nodes), matchtest.Slots("a", 1, pod...))
				r.Duration = time.Minute
				for b.Loop() {
					d.cycle(b, r)
				}
			})
		}
	}
}
