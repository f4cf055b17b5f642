// Package trials says how many trials a random test makes, and from which seed it draws
// them. A test program that imports it has two more flags: -trials and -seed. Without
// them a test makes as many trials as fit into a run of all tests, and a quarter of these
// with -short.
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

// Count returns how many trials a test makes: usual ones, or a quarter of them with
// -short, unless -trials says otherwise.
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

// Usual reports whether -trials says nothing. Then a test may also stop before it has
// made all, when it has taken long.
func Usual() bool { return *trialsFlag == 0 }

// Seeds yields a seed for each of usual trials, or of -trials: 0, 1, 2 and so on, or from
// -seed on.
func Seeds(usual int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range uint64(Count(usual)) {
			if !yield(*seedFlag + i) {
				return
			}
		}
	}
}

// Seed returns -seed or, without it, a fresh one, and logs how to have it again.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = 1 + uint64(rand.Uint32())
	}
	t.Logf("-seed=%d", seed)
	return seed
}
