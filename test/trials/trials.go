// Package trials decides how many trials a random test makes, and from which seeds. A test
// program that imports it has two more flags: -trials and -seed. Without them a test makes
// as many trials as fit into a run of all tests. With -short it makes a quarter of these.
package trials

import (
	"flag"
	"iter"
	"math/rand/v2"
	"testing"
)

var (
	trialsFlag = flag.Uint("trials", 0, "how many trials each random test makes; 0 is the test's own number")
	seedFlag   = flag.Uint64("seed", 0, "the seed that random tests draw from, or the first of several; 0 is the test's own")
)

// Count returns the number of trials: -trials if it is
// set, otherwise usual, or a quarter of it with -short.
func Count(usual int) int {
	switch {
	case *trialsFlag > 0:
		return int(*trialsFlag)
	case testing.Short():
		return (usual + 3) / 4
	default:
		return usual
	}
}

// Usual reports whether -trials is not set. Then a test may
// also stop before its last trial, when it has taken long.
func Usual() bool { return *trialsFlag == 0 }

// Seeds yields a seed for each trial: consecutive numbers from -seed
// on, or from 0. usual is the number of trials if -trials is not set.
func Seeds(usual int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range uint64(Count(usual)) {
			if !yield(*seedFlag + i) {
				return
			}
		}
	}
}

// Seed returns -seed, or a fresh seed if it is not set. It logs the flag that repeats the run.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = 1 + uint64(rand.Uint32())
	}
	t.Logf("-seed=%d", seed)
	return seed
}
