package engine_test

import (
	"errors"
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

// BenchmarkBesidePromises matches pods while half of every node is reserved from an hour later on: pods that end
// before, pods that end after, and pods without an end. It also has refusals of pods that are too large for what
// is left.
func BenchmarkBesidePromises(b *testing.B) {
	const nodes = 10_000
	d, _ := loaded(b, nodes)
	jobs := make([]match.Job, nodes)
	for i := range jobs {
		start := matchtest.Now.Add(time.Hour + time.Duration(i)*time.Second)
		jobs[i] = match.Job{ID: match.JobID(i + 1), Reserved: true, Start: start, Slots: []match.Slot{
			matchtest.Held("0", fmt.Sprintf("n%05d", i), matchtest.Cores(32), matchtest.GPUs(4)),
		}}
	}
	if err := d.e.Update(b.Context(), d.epoch, jobs...); err != nil {
		b.Fatal(err)
	}
	ends := []struct {
		name     string
		duration time.Duration
	}{{"before", 30 * time.Minute}, {"after", 24 * time.Hour}, {"never", 0}}
	for _, end := range ends {
		for _, pods := range []int64{1, 256} {
			b.Run(fmt.Sprintf("end=%s/pods=%d", end.name, pods), func(b *testing.B) {
				r := d.request(match.JobID(2*nodes), matchtest.Slots("a", pods, pod...))
				r.Duration = end.duration
				for b.Loop() {
					d.cycle(b, r)
				}
			})
		}
	}
	for _, terse := range []bool{false, true} {
		b.Run(fmt.Sprintf("refused/terse=%v", terse), func(b *testing.B) {
			r := d.request(match.JobID(2*nodes), matchtest.Slots("a", 1, matchtest.Cores(64)))
			r.Terse = terse
			for b.Loop() {
				if _, err := d.e.Match(b.Context(), r); !errors.Is(err, match.ErrBusy) {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPromise reserves whole nodes among 10,000 nodes with five jobs each, all of which end at different times.
func BenchmarkPromise(b *testing.B) {
	const nodes, ends = 10_000, 50_000
	d, _ := loaded(b, nodes)
	jobs := make([]match.Job, ends)
	for i := range jobs {
		// The order in which jobs end differs from the order of their nodes.
		jobs[i] = match.Job{ID: match.JobID(i + 1), End: matchtest.Now.Add(time.Duration(1+i*7919%ends) * time.Second), Slots: []match.Slot{
			matchtest.Held("0", fmt.Sprintf("n%05d", i/5), matchtest.Cores(12)),
		}}
	}
	if err := d.e.Update(b.Context(), d.epoch, jobs...); err != nil {
		b.Fatal(err)
	}
	for _, slots := range []int64{1, 100, 1_000} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			r := d.request(match.JobID(2*ends), matchtest.Slots("a", slots, matchtest.Cores(64)))
			r.Op, r.Duration = match.AllocateOrElseReserve, time.Hour
			for b.Loop() {
				if a, err := d.e.Match(b.Context(), r); err != nil || !a.Reserved {
					b.Fatalf("Match() = %+v, %v, want a reservation", a, err)
				}
				if err := d.e.Release(b.Context(), d.epoch, r.ID); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
