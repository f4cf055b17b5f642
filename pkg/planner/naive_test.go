package planner

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flux-k8s/fluence/test/trials"
)

// A span is one booking of one amount or several.
type span struct {
	start, end int64
	amounts    []int64
}

// A record is a list of spans. It computes every answer from the whole list.
type record struct{ spans []span }

// at returns the sum of what is booked of amount i at t.
func (r *record) at(i int, t int64) int64 {
	sum := int64(0)
	for _, s := range r.spans {
		if s.start <= t && t < s.end {
			sum += s.amounts[i]
		}
	}
	return sum
}

// events returns the times at which spans begin or end, in order.
func (r *record) events() []int64 {
	var all []int64
	for _, s := range r.spans {
		all = append(all, s.start)
		if s.end != Forever {
			all = append(all, s.end)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// peak returns the largest sum at the start and at every event within.
func (r *record) peak(i int, start, end int64) int64 {
	most := r.at(i, start)
	for _, t := range r.events() {
		if start < t && t < end {
			most = max(most, r.at(i, t))
		}
	}
	return most
}

func (r *record) next(after int64) (int64, bool) {
	for _, t := range r.events() {
		if t > after {
			return t, true
		}
	}
	return 0, false
}

// earliest tries from and every event after it.
func (r *record) earliest(from, duration int64, wanted, totals []int64) (int64, bool) {
	for _, t := range append([]int64{from}, r.events()...) {
		if t < from {
			continue
		}
		end := later(t, duration)
		fits := true
		for i, w := range wanted {
			fits = fits && totals[i]-r.peak(i, t, end) >= w
		}
		if fits {
			return t, true
		}
	}
	return 0, false
}

// randomSpan returns a span of n amounts within the horizon. Now and then the span has no end.
func randomSpan(r *rand.Rand, horizon int64, amounts int) span {
	s := span{start: r.Int64N(horizon), amounts: make([]int64, amounts)}
	s.end = s.start + 1 + r.Int64N(horizon)
	if r.IntN(8) == 0 {
		s.end = Forever
	}
	for i := range s.amounts {
		s.amounts[i] = r.Int64N(5)
	}
	return s
}

// newRandom returns a source of random numbers. It logs how to repeat them.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(trials.Seed(t), 0))
}
