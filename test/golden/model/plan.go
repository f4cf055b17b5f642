package model

import (
	"slices"
)

// A span is an amount that a job holds for a time.
type span struct {
	start, end, amount int64
	job                uint64
}

type spans []span

// peak returns the most that is held at any time in [start, end).
func (s spans) peak(start, end int64) int64 {
	held := func(t int64) (n int64) {
		for _, x := range s {
			if x.start <= t && t < x.end {
				n += x.amount
			}
		}
		return n
	}
	most := held(start)
	for _, x := range s {
		if start < x.start && x.start < end {
			most = max(most, held(x.start))
		}
	}
	return most
}

func (s *spans) drop(job uint64) {
	*s = slices.DeleteFunc(*s, func(x span) bool { return x.job == job })
}
