package solver

// A Workspace is memory that one layout leaves to the next, and the meter of the one at work.
type Workspace struct {
	Meter
	room    []int64 // what is left, by position of a node and need
	filled  []int32 // by position: the attempt that a row was filled for
	attempt int32
	permits []uint8 // by shape and position: what is known of the constraints
	// left and settled are by cell of the limits: how many slots may still be laid out there, and
	// the attempt that this was filled for. Like rows they are filled when they are first looked at.
	left    []int64
	settled []int32
	runs    []Run
	// effort bounds what the searches of this problem may still look at.
	effort int
	// sums is memory for what fits by cell.
	sums []int64
}

const (
	// maxRoom is how many bytes there may be in the memory of one layout for what is left on
	// nodes, and in each other part that grows with the nodes and the shapes.
	maxRoom = 1 << 26
	// KeptRoom is how many bytes of such a part one layout leaves to the next.
	KeptRoom = 1 << 22
	// bytesPerStep is how many bytes are cleared in a step, and needsPerStep of how many needs
	// it is read what is left.
	bytesPerStep = 64
	needsPerStep = 4
)

// affords charges for memory of so many bytes. It is false where that is too much.
func (w *Workspace) affords(bytes int) bool {
	if bytes > maxRoom {
		w.Exhaust()
	}
	return !w.Spent() && w.Charge(bytes/bytesPerStep)
}

// Tidy lets go of what one layout needed much of.
func (w *Workspace) Tidy() {
	w.room, w.filled, w.permits = kept(w.room, 8), kept(w.filled, 4), kept(w.permits, 1)
	w.left, w.settled = kept(w.left, 8), kept(w.settled, 4)
	w.sums, w.runs = kept(w.sums, 8), kept(w.runs, 24)
}

// Size returns the bytes of the largest slice that is kept.
func (w *Workspace) Size() int {
	return max(8*cap(w.room), 4*cap(w.filled), cap(w.permits), 8*cap(w.left), 4*cap(w.settled), 8*cap(w.sums), 24*cap(w.runs))
}

// kept returns memory to go on with, of elements of so many bytes.
func kept[T any](s []T, size int) []T {
	if cap(s)*size > KeptRoom {
		return nil
	}
	return s
}

func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
