package engine

import "sync/atomic"

// How many steps a match may take: lockedSteps while it holds the engine, and longSteps on a copy of
// the columns beside it. A step is about as much as to look at one pool of one node: 5 to 12 ns.
const (
	lockedSteps = 1 << 22
	longSteps   = 1 << 25
)

// hostSteps is how many steps it counts to find the cell of a host.
const hostSteps = 16

// Work bounds what matches may take.
type work struct {
	// lockedSteps is lockedSteps and lengthy longSteps, but in tests.
	lockedSteps, longSteps int
	// maxOverrun is the most steps that a match took although none were left for it.
	maxOverrun atomic.Int64
	// longSem is held by the one match that goes on beside the graph.
	longSem chan struct{}
}

// observeOverrun notes how far a match went beyond what it may take.
func (w *work) observeOverrun(over int) {
	for {
		most := w.maxOverrun.Load()
		if int64(over) <= most || w.maxOverrun.CompareAndSwap(most, int64(over)) {
			return
		}
	}
}
