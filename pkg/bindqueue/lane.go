package bindqueue

import "time"

// A Lane is one of the two in which groups come to the gate: decisions in one do not wait
// for binds in the other.
type Lane int

// The lanes.
const (
	// Small is for groups of at most MaxSmallGroup pods. One in eight pods that leave the
	// gate is of it, however many of large groups stand before them.
	Small Lane = iota
	// Large is for all others.
	Large
)

// MaxSmallGroup is the most pods that a group of the small lane asks for at a time.
const MaxSmallGroup = 8

// LaneOf returns the lane of so many pods that are asked for together.
func LaneOf(pods int) Lane {
	if pods <= MaxSmallGroup {
		return Small
	}
	return Large
}

// Lanes lists them.
func Lanes() []Lane { return []Lane{Small, Large} }

// String returns the lane's name, as metrics have it.
func (l Lane) String() string {
	if l == Small {
		return "small"
	}
	return "large"
}

// lane is what the gate knows of one.
type lane struct {
	// first is how many pods may be ahead of the next group until there is a rate.
	first int
	// expected and standing count the pods ahead that have nodes, admitted those of the
	// groups that may ask and have not yet.
	expected, waiting, admitted int
	// inFlight counts the binds that were sent and not answered.
	inFlight int
	// busy is since when there is something in the lane; zero while it is empty.
	busy       time.Time
	binds      window
	admissions admissions
	queue      laneQueue
}

func newLane(max int) lane {
	return lane{first: 2 * max, admissions: newAdmissions(), queue: newLaneQueue()}
}

// ahead counts the pods that the next group would stand behind.
func (l *lane) ahead() int { return l.expected + l.waiting + l.admitted }

// touch takes note of whether the lane is empty. A lane that has become empty has no
// rate: what it bound says nothing about the next burst.
func (l *lane) touch(now time.Time) {
	switch empty := l.ahead() == 0 && l.inFlight == 0; {
	case empty:
		l.busy = time.Time{}
	case l.busy.IsZero():
		l.busy = now
		l.binds = window{}
	}
}

// rate is how many pods the lane bound in the last second, or as many as may stand at the
// gate while there is no such figure.
func (l *lane) rate(now time.Time) int {
	n := l.binds.count(now)
	if n == 0 || l.busy.IsZero() || now.Sub(l.busy) < windowSize {
		return max(n, l.first)
	}
	return n
}

// mayAdmit says whether a group of so many pods may ask: no more pods stand at the gate than
// leave it in a second. Those that are on their way there are as few, or twice the most
// binds in flight: they may be slow though the API server is not. A larger group waits until
// the lane is empty.
func (l *lane) mayAdmit(pods int, now time.Time) bool {
	rate := l.rate(now)
	most := max(rate, l.first)
	ahead := l.ahead()
	return ahead == 0 || l.waiting <= rate && ahead <= most && pods <= most
}

const (
	// windowSize is the time over which binds are counted.
	windowSize = time.Second
	bucketSize = windowSize / buckets
	buckets    = 10
)

// window counts events of the last second.
type window struct {
	counts [buckets]int
	// newest numbers the bucket that was counted in last, since the zero time.
	newest int64
}

func bucketOf(now time.Time) int64 { return now.UnixNano() / int64(bucketSize) }

// advance empties the buckets of the time that has passed.
func (w *window) advance(now time.Time) {
	at := bucketOf(now)
	for n := max(w.newest+1, at-buckets+1); n <= at; n++ {
		w.counts[n%buckets] = 0
	}
	w.newest = max(w.newest, at)
}

func (w *window) add(now time.Time) {
	w.advance(now)
	w.counts[w.newest%buckets]++
}

func (w *window) count(now time.Time) int {
	w.advance(now)
	n := 0
	for _, c := range w.counts {
		n += c
	}
	return n
}
