package engine_test

import (
	"fmt"
	"testing"

	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/match/matchtest"
)

// largeNodes is the number of nodes of BenchmarkLarge.
const largeNodes = 100_000

// without requests pods that may not use some nodes: this number, at equal distances.
func without(pods int64, nodes int) *jobspec.Jobspec {
	hosts := make([]string, nodes)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("n%05d", i*(largeNodes/nodes)+1)
	}
	return matchtest.Constrain(matchtest.Slots("a", pods, pod...), "a",
		jobspec.SlotAttributes{ConstraintsNow: matchtest.Not(matchtest.Hosts(hosts...))})
}

// BenchmarkLarge matches pods among 100,000 nodes, as in the largest Kubernetes clusters. One graph
// is loaded for all sub-benchmarks. What other jobs hold of it is the first part of a name:
//
//	empty   nothing
//	partly  half of the GPUs on every third node
//	full    all, except on one node in the middle
//	mixed   the same, but half of the nodes lack only cores, and the others only memory
//	busy    all
//
// The goals are 0.1 ms for one pod, and 5 ms for 1,000 pods and for a refusal.
func BenchmarkLarge(b *testing.B) {
	d, _ := loaded(b, largeNodes)
	hold := func(b *testing.B, pools func(i int) []matchtest.Pool) {
		b.Helper()
		var held []match.Slot
		for i := range largeNodes {
			if p := pools(i); p != nil {
				held = append(held, matchtest.Held(fmt.Sprint(i), fmt.Sprintf("n%05d", i), p...))
			}
		}
		if err := d.e.Update(b.Context(), d.epoch, match.Job{ID: 1, Slots: held}); err != nil {
			b.Fatal(err)
		}
	}
	whole := []matchtest.Pool{matchtest.Cores(64), matchtest.Memory(256), matchtest.Pods(110), matchtest.GPUs(8)}
	const middle = largeNodes / 2
	states := []struct {
		name  string
		pools func(i int) []matchtest.Pool
	}{
		{"empty", func(int) []matchtest.Pool { return nil }},
		{"partly", func(i int) []matchtest.Pool {
			if i%3 > 0 {
				return nil
			}
			return []matchtest.Pool{matchtest.Cores(4), matchtest.Memory(8), matchtest.Pods(4), matchtest.GPUs(4)}
		}},
		{"full", func(i int) []matchtest.Pool {
			if i == middle {
				return nil
			}
			return whole
		}},
		{"mixed", func(i int) []matchtest.Pool {
			if i == middle {
				return nil
			}
			return whole[i%2 : i%2+1]
		}},
		{"busy", func(int) []matchtest.Pool { return whole }},
	}
	for _, s := range states {
		b.Run(s.name, func(b *testing.B) {
			hold(b, s.pools)
			defer func() {
				if err := d.e.Release(b.Context(), d.epoch, 1); err != nil {
					b.Fatal(err)
				}
			}()
			switch s.name {
			case "empty":
				largeNever(b, d)
			case "busy":
				largeBusy(b, d)
				return
			}
			largePods(b, d, s.name == "empty" || s.name == "partly")
		})
	}
}

// largePods matches pods that fit.
func largePods(b *testing.B, d *driver, many bool) {
	for _, policy := range match.Policies() {
		b.Run("pods=1/policy="+policy, func(b *testing.B) {
			r := d.request(2, matchtest.Slots("a", 1, pod...))
			r.Policy, r.Holder = policy, "a"
			b.ReportAllocs()
			for b.Loop() {
				d.cycle(b, r)
			}
		})
	}
	for _, nodes := range []int{100, 1000, largeNodes / 4} {
		b.Run(fmt.Sprintf("pods=1/forbidden=%d", nodes), func(b *testing.B) { benchmark(b, d, without(1, nodes)) })
	}
	b.Run("pods=1/near", func(b *testing.B) {
		r := d.request(2, matchtest.Slots("a", 1, pod...))
		r.Near = []string{"n00777"}
		for b.Loop() {
			d.cycle(b, r)
		}
	})
	if !many {
		b.Run("refused=now/pods=256", func(b *testing.B) { refuse(b, d, matchtest.Slots("a", 256, pod...), match.ErrBusy) })
		return
	}
	const pods = 1000
	r := d.request(2, matchtest.Slots("a", pods, pod...))
	b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.e.Match(b.Context(), r); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := d.e.Release(b.Context(), d.epoch, r.ID); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run(fmt.Sprintf("release/pods=%d", pods), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			if _, err := d.e.Match(b.Context(), r); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if err := d.e.Release(b.Context(), d.epoch, r.ID); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(fmt.Sprintf("pods=%d/forbidden=1000", pods), func(b *testing.B) { benchmark(b, d, without(pods, 1000)) })
}

// largeBusy matches pods that do not fit now.
func largeBusy(b *testing.B, d *driver) {
	for _, pods := range []int64{1, 256} {
		b.Run(fmt.Sprintf("refused=now/pods=%d", pods), func(b *testing.B) { refuse(b, d, matchtest.Slots("a", pods, pod...), match.ErrBusy) })
	}
	b.Run("refused=now/forbidden=1000", func(b *testing.B) { refuse(b, d, without(1, 1000), match.ErrBusy) })
}

// largeNever matches pods that never fit: because one is too large, and because there are too many.
func largeNever(b *testing.B, d *driver) {
	b.Run("refused=never/large", func(b *testing.B) {
		refuse(b, d, matchtest.Slots("a", 1, matchtest.Cores(65), matchtest.Pods(1)), match.ErrUnsatisfiable)
	})
	b.Run("refused=never/many", func(b *testing.B) {
		refuse(b, d, matchtest.Slots("a", 8*largeNodes+1, pod...), match.ErrUnsatisfiable)
	})
}
