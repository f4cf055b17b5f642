package engine

import "sync/atomic"

// How many steps a match may take: briefWork while it holds the engine, and longWork on a copy of
// the columns beside it. A step is about as much as to look at one pool of one node: 5 to 12 ns.
const (
	briefWork = 1 << 22
	longWork  = 1 << 25
)

// hostSteps is how many steps it counts to find the cell of a host.
const hostSteps = 16

// Work bounds what matches may take.
type work struct {
	// brief is briefWork and lengthy longWork, but in tests.
	brief, lengthy int
	// overrun is the most steps that a match took although none were left for it.
	overrun atomic.Int64
	// long is held by the one match that goes on beside the graph.
	long chan struct{}
}

// settle notes how far a match went beyond what it may take.
func (w *work) settle(over int) {
	for {
		most := w.overrun.Load()
		if int64(over) <= most || w.overrun.CompareAndSwap(most, int64(over)) {
			return
		}
	}
}
