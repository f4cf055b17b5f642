package engine

import "sync/atomic"

// The maximum work of one match in steps: lockedSteps under the lock, and unlockedSteps for its long
// searches. A step is about the work of reading one pool of one node: 5 to 12 ns.
const (
	lockedSteps   = 1 << 22
	unlockedSteps = 1 << 25
)

// exhaustiveUnits is the number of units up to which all sets of them are tried for the least harm, as long as
// there are steps left.
const exhaustiveUnits = 24

// hostSteps is the cost in steps of looking up a node by name, or the slots of a node.
const hostSteps = 16

// workLimits has the maximum work of matches.
type workLimits struct {
	// lockedSteps and unlockedSteps are the constants of these names, except in tests.
	lockedSteps, unlockedSteps int
	// exhaustiveUnits is the constant of this name, except in tests.
	exhaustiveUnits int
	// maxOverrun is the largest number of steps by which a match exceeded its maximum.
	maxOverrun atomic.Int64
	// unlockedSem is a semaphore. The one unlocked search that runs holds it.
	unlockedSem chan struct{}
}

// observeOverrun records the steps by which a match exceeded its maximum.
func (w *workLimits) observeOverrun(over int) {
	for {
		most := w.maxOverrun.Load()
		if int64(over) <= most || w.maxOverrun.CompareAndSwap(most, int64(over)) {
			return
		}
	}
}
