package store

import (
	"math"
	"testing"
)

func TestSum128IsExactPastInt64(t *testing.T) {
	var sum sum128
	for range 5 {
		sum.add(math.MaxInt64)
	}
	sum.add(3)
	for range 5 {
		if got := sum.remaining(math.MaxInt64); got != 0 {
			t.Errorf("remaining(%d) = %d, want 0", int64(math.MaxInt64), got)
		}
		sum.sub(math.MaxInt64)
	}
	for size, want := range map[int64]int64{0: 0, 2: 0, 3: 0, 4: 1, math.MaxInt64: math.MaxInt64 - 3} {
		if got := sum.remaining(size); got != want {
			t.Errorf("remaining(%d) = %d, want %d", size, got, want)
		}
	}
}
