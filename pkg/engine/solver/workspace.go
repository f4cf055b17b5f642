package solver

// A Workspace is memory that one layout leaves to the next, and the meter of the one at work.
type Workspace struct {
	Meter
	rows            []int64 // what is left, by position of a node and need
	rowStamp        []int32 // by position: the attempt that a row was filled for
	stamp           int32
	constraintCache []uint8 // by shape and position: what is known of the constraints
	// allowances and settled are by cell of the limits: how many slots may still be laid out there, and
	// the attempt that this was filled for. Like rows they are filled when they are first looked at.
	allowances []int64
	cellStamp  []int32
	runs       []Run
	// searchSteps bounds what the searches of this problem may still look at.
	searchSteps int
	// sums is memory for what fits by cell.
	sums []int64
}

const (
	// maxBytes is how many bytes there may be in the memory of one layout for what is left on
	// nodes, and in each other part that grows with the nodes and the shapes.
	maxBytes = 1 << 26
	// KeptBytes is how many bytes of such a part one layout leaves to the next.
	KeptBytes = 1 << 22
	// bytesPerStep is how many bytes are cleared in a step, and needsPerStep of how many needs
	// it is read what is left.
	bytesPerStep = 64
	needsPerStep = 4
)

// chargeMemory charges for memory of so many bytes. It is false where that is too much.
func (w *Workspace) chargeMemory(bytes int) bool {
	if bytes > maxBytes {
		w.Exhaust()
	}
	return !w.IsExhausted() && w.Charge(bytes/bytesPerStep)
}

// Tidy lets go of what one layout needed much of.
func (w *Workspace) Tidy() {
	w.rows, w.rowStamp, w.constraintCache = dropIfLarge(w.rows, 8), dropIfLarge(w.rowStamp, 4), dropIfLarge(w.constraintCache, 1)
	w.allowances, w.cellStamp = dropIfLarge(w.allowances, 8), dropIfLarge(w.cellStamp, 4)
	w.sums, w.runs = dropIfLarge(w.sums, 8), dropIfLarge(w.runs, 24)
}

// Size returns the bytes of the largest slice that is kept.
func (w *Workspace) Size() int {
	return max(8*cap(w.rows), 4*cap(w.rowStamp), cap(w.constraintCache), 8*cap(w.allowances), 4*cap(w.cellStamp), 8*cap(w.sums), 24*cap(w.runs))
}

// dropIfLarge returns memory to go on with, of elements of so many bytes.
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
