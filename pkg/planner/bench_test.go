package planner

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkPlan queries plans with different numbers of bookings, which all end at different times.
func BenchmarkPlan(b *testing.B) {
	for _, spans := range []int64{10, 1_000, 100_000} {
		r := rand.New(rand.NewPCG(1, 0))
		var p Plan
		horizon := 1000 * spans
		for range spans {
			start := r.Int64N(horizon)
			p.Add(start, start+1+r.Int64N(horizon), 1+r.Int64N(8))
		}
		total := p.Peak(0, Forever)
		b.Run(fmt.Sprintf("spans=%d/add and remove", spans), func(b *testing.B) {
			for b.Loop() {
				start := r.Int64N(horizon)
				p.Add(start, start+horizon/2, 3)
				p.Remove(start, start+horizon/2, 3)
			}
		})
		b.Run(fmt.Sprintf("spans=%d/peak", spans), func(b *testing.B) {
			for b.Loop() {
				start := r.Int64N(horizon)
				p.Peak(start, start+horizon/2)
			}
		})
		b.Run(fmt.Sprintf("spans=%d/earliest", spans), func(b *testing.B) {
			for b.Loop() {
				p.Earliest(r.Int64N(horizon), horizon/4, total/2, total)
			}
		})
		b.Run(fmt.Sprintf("spans=%d/next", spans), func(b *testing.B) {
			for b.Loop() {
				p.Next(r.Int64N(horizon))
			}
		})
	}
}

// BenchmarkEarliestAmongTeeth searches for a gap in a plan that goes up
// and down all the time. The only gap that is long enough is at the end.
func BenchmarkEarliestAmongTeeth(b *testing.B) {
	for _, spans := range []int64{10, 1_000, 100_000} {
		b.Run(fmt.Sprintf("spans=%d", spans), func(b *testing.B) {
			var p Plan
			for i := range spans {
				p.Add(10*i, 10*i+5, 1)
			}
			for b.Loop() {
				if at, ok := p.Earliest(0, 6, 1, 1); at != 10*spans-5 || !ok {
					b.Fatalf("Earliest() = %d, %v", at, ok)
				}
			}
		})
	}
}
