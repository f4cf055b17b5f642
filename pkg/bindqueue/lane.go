package bindqueue

import "time"

// A Lane is for groups of one size, small or large. Groups of one lane are placed
// without waiting for binds of the other lane.
type Lane int

// The lanes.
const (
	// Small is for groups of at most MaxSmallGroup pods. While pods of this lane wait, at least
	// one in smallLaneInterval pods that leave is from this lane, however many pods of large groups wait.
	Small Lane = iota
	// Large is for larger groups.
	Large
)

// MaxSmallGroup is the maximum number of pods that a group of the small lane places at once.
const MaxSmallGroup = 8

// LaneOf returns the lane of a group that places this many pods at once.
func LaneOf(pods int) Lane {
	if pods <= MaxSmallGroup {
		return Small
	}
	return Large
}

// Lanes lists both lanes.
func Lanes() []Lane { return []Lane{Small, Large} }

// String returns the lane's name in metrics.
func (l Lane) String() string {
	if l == Small {
		return "small"
	}
	return "large"
}

// lane is the state of one Lane.
type lane struct {
	// minAhead is how many pods may be ahead of the next group while no rate is known:
	// twice the maximum of binds in flight.
	minAhead int
	// expected counts the matched pods that have not arrived. waiting counts the pods in the
	// bind queue. admitted counts the pods of groups that were admitted and have not placed yet.
	expected, waiting, admitted int
	// inFlight counts the binds that were sent and not answered.
	inFlight int
	// busySince is since when the lane has pods ahead or binds in flight. It is zero while
	// it has neither.
	busySince  time.Time
	binds      window
	admissions admissions
	queue      laneQueue
}

func newLane(max int) lane {
	return lane{minAhead: 2 * max, admissions: newAdmissions(), queue: newLaneQueue()}
}

// ahead counts the pods that are bound before the pods of the next group.
func (l *lane) ahead() int { return l.expected + l.waiting + l.admitted }

// updateBusySince records whether the lane is empty. A lane that was empty starts without a
// rate, because what it bound before says nothing about the next burst.
func (l *lane) updateBusySince(now time.Time) {
	switch empty := l.ahead() == 0 && l.inFlight == 0; {
	case empty:
		l.busySince = time.Time{}
	case l.busySince.IsZero():
		l.busySince = now
		l.binds = window{}
	}
}

// rate returns how many pods the lane bound in the last second. It returns at least
// first if the lane bound none, or has been busy for less than a second.
func (l *lane) rate(now time.Time) int {
	n := l.binds.count(now)
	if n == 0 || l.busySince.IsZero() || now.Sub(l.busySince) < windowSize {
		return max(n, l.minAhead)
	}
	return n
}

// mayAdmit reports whether a group of this many pods may place. It may if no pods are
// ahead. Otherwise three limits hold. The pods that wait are at most as many as the lane
// binds in a second (rate). The pods ahead are at most the larger of rate and minAhead. The
// group has at most as many pods; a larger group waits until no pods are ahead. minAhead
// keeps the lane going if pods arrive slowly for other reasons than the API server.
func (l *lane) mayAdmit(pods int, now time.Time) bool {
	rate := l.rate(now)
	most := max(rate, l.minAhead)
	ahead := l.ahead()
	return ahead == 0 || l.waiting <= rate && ahead <= most && pods <= most
}

const (
	// windowSize is the time over which binds are counted.
	windowSize = time.Second
	bucketSize = windowSize / buckets
	buckets    = 10
)

// window is a sliding window: it counts the events of the last second in buckets.
type window struct {
	counts [buckets]int
	// newest is the number of the newest bucket, counted from the Unix epoch.
	newest int64
}

func bucketOf(now time.Time) int64 { return now.UnixNano() / int64(bucketSize) }

// advance makes the bucket of now the newest one, and empties the buckets of the time
// that has passed.
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
