package solver

import (
	"math"
	"slices"
)

// A Workspace holds buffers that one layout reuses from
// the last, and the meter of the layout that uses it now.
type Workspace struct {
	Meter
	// rows has the rows of the current attempt, one after the other: the amounts left, by need.
	// rowIndex has by position the number of the node's row. It is valid only if rowStamp
	// is the current attempt.
	rows               []int64
	rowIndex, rowStamp []int32
	rowCount           int
	// stamp is the number of the current attempt. It is not used by an earlier layout.
	stamp           int32
	constraintCache []uint8 // by shape and position: known, allowedAlways and allowedNow
	// allowances has, by cell of the limits, how many more slots the cell may have. An
	// entry is valid only if cellStamp of the cell is the current attempt. Otherwise
	// the attempt has placed no slot in the cell, and the cell's maximum applies.
	allowances []int64
	cellStamp  []int32
	runs       []Run
	// searchBudgetLeft is the budget that is left for all searches of the problem together.
	searchBudgetLeft int
	// sums is a buffer of exceedsLimit: the slots that fit, by cell.
	sums []int64
}

const (
	// maxBytes is the largest size of one buffer: of the rows, and
	// of each other buffer that grows with the nodes and the shapes.
	maxBytes = 1 << 26
	// KeptBytes is the size above which Tidy drops a buffer.
	KeptBytes = 1 << 22
	// bytesPerStep is how many bytes are cleared in one step.
	bytesPerStep = 64
	// needsPerStep is how many needs of a row are read in one step.
	needsPerStep = 4
)

// chargeMemory charges the meter for clearing a buffer of this size. It
// returns false if the meter has too few steps left. If the buffer would
// be larger than maxBytes, it exhausts the meter and returns false.
func (w *Workspace) chargeMemory(bytes int) bool {
	if bytes > maxBytes {
		w.Exhaust()
	}
	return !w.IsExhausted() && w.Charge(bytes/bytesPerStep)
}

// nextStamp begins an attempt.
func (w *Workspace) nextStamp() {
	if w.stamp == math.MaxInt32 {
		clear(w.rowStamp[:cap(w.rowStamp)])
		clear(w.cellStamp)
		w.stamp = 0
	}
	w.stamp++
	w.rows, w.rowCount = w.rows[:0], 0
}

// rowAt returns the row of the node at a position, for this number of needs. It is
// nil if the node has no row. Then no slot is placed there.
func (w *Workspace) rowAt(at int32, needs int) []int64 {
	if w.rowStamp[at] != w.stamp {
		return nil
	}
	from := int(w.rowIndex[at]) * needs
	return w.rows[from : from+needs : from+needs]
}

// newRow appends a row for this number of needs. The caller must set its amounts.
func (w *Workspace) newRow(needs int) []int64 {
	from := len(w.rows)
	w.rows = slices.Grow(w.rows, needs)[:from+needs]
	w.rowCount++
	return w.rows[from : from+needs : from+needs]
}

// Tidy drops the buffers that are larger than KeptBytes.
func (w *Workspace) Tidy() {
	w.rows, w.constraintCache = dropIfLarge(w.rows, 8), dropIfLarge(w.constraintCache, 1)
	w.rowIndex, w.rowStamp = dropIfLarge(w.rowIndex, 4), dropIfLarge(w.rowStamp, 4)
	w.allowances, w.cellStamp = dropIfLarge(w.allowances, 8), dropIfLarge(w.cellStamp, 4)
	w.sums, w.runs = dropIfLarge(w.sums, 8), dropIfLarge(w.runs, 24)
}

// Size returns the size in bytes of the largest buffer.
func (w *Workspace) Size() int {
	return max(8*cap(w.rows), 4*cap(w.rowIndex), 4*cap(w.rowStamp), cap(w.constraintCache), 8*cap(w.allowances), 4*cap(w.cellStamp), 8*cap(w.sums), 24*cap(w.runs))
}

// dropIfLarge returns the slice, or nil if the slice is larger
// than KeptBytes. size is the size of an element in bytes.
func dropIfLarge[T any](s []T, size int) []T {
	if cap(s)*size > KeptBytes {
		return nil
	}
	return s
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
