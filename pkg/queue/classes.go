package queue

import (
	"cmp"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// endless is the duration of a job without an end, in the order of durations.
	endless = math.MaxInt64 - 1
	// unlimited is more than every duration.
	unlimited = math.MaxInt64
)

// A job is a job of the core.
type job struct {
	Job
	queue *queue
	// running is set from the admission on. What follows is of jobs that wait.
	running bool
	// lane is where the job asks from. It is nil if the job is held or unplaceable.
	lane *lane
	// at are its places in the trees of its queue and of its lane.
	at [2]links
	// promise is nil if the job is promised nothing.
	promise *promise
	// refused is since when the job, as the first of its queue, is refused room without a promise.
	refused time.Time
}

// before reports whether a comes before b: by the priority of their queues, their priority, creation and key.
func (a *job) before(b *job) bool {
	return cmp.Or(
		cmp.Compare(b.queue.Priority, a.queue.Priority),
		cmp.Compare(b.Priority, a.Priority),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Key.Namespace, b.Key.Namespace),
		cmp.Compare(a.Key.Name, b.Key.Name),
	) < 0
}

// outranks reports whether a job without a promise may ignore what another one is promised: one after it in its own queue, or
// one of a lower priority elsewhere.
func (a *job) outranks(b *job) bool {
	if a.queue == b.queue {
		return a.before(b)
	}
	return cmp.Or(cmp.Compare(a.queue.Priority, b.queue.Priority), cmp.Compare(a.Priority, b.Priority)) > 0
}

// ignores reports whether a job ignores what another one is promised. Once it has a promise itself, it does so only if it may have
// taken that from what h was promised, and h has not asked anew yet.
func (a *job) ignores(h *job) bool {
	if a.promise == nil {
		return a.outranks(h)
	}
	return slices.Contains(h.promise.takers, a.Key)
}

// length is the job's duration in the order of durations.
func (a *job) length() int64 {
	if a.Duration == 0 {
		return endless
	}
	return int64(a.Duration)
}

// A promise is what a job of the core is promised. Such a job asks from a lane of its own: a refusal of its class says
// nothing of its promise.
type promise struct {
	Promise
	// lost is set if others may have taken what is promised. The promise may then become a later one. takers are the jobs
	// that may have.
	lost   bool
	takers []types.NamespacedName
	// askAt is when the job asks although nothing has happened.
	askAt time.Time
	// home is the lane that the job goes back to.
	home *lane
}

// A lane has the jobs of one class and namespace. What keeps one of them from asking keeps those after it
// from asking that run as long or longer.
type lane struct {
	class     *class
	namespace string
	jobs      tree
	// limited is the least duration that a limit of the queue keeps from asking.
	limited int64
	// next is not after the first job that may ask. index is the place among the lanes that are ready, or -1.
	next  *job
	index int
	// holder is the one job of the lane if it has a promise. mayAsk is set if it may ask. round is
	// when it asked last.
	holder *job
	mayAsk bool
	round  uint64
}

// A class has the jobs of a queue that get the same answers.
type class struct {
	name  string
	queue *queue
	lanes []*lane
	// size is the number of jobs.
	size int
	// verdict is the last refusal. It is Granted while no job is refused.
	verdict Verdict
	// closed is the least duration that is refused, and by is the last job in the order of those that were. A
	// refusal holds for jobs after by: they ignore no more promises than by did, and avoid no fewer nodes.
	closed int64
	by     *job
	// wasFull is set if even the shortest job was refused when the class was open last, and probed if it was not since
	// the class is open.
	wasFull, probed bool
	// round is when a job was refused last. again is set if the class opens in the next round.
	round uint64
	again bool
	// retryAt is when the class opens after there was no answer.
	retryAt time.Time
	// message is the matcher's last one.
	message string
	// requests is what all jobs share that have equal ones.
	requests map[string]int64
}

// fixed reports whether the refusal holds for all durations, until nodes change.
func (k *class) fixed() bool { return k.verdict == Never || k.verdict == Down || k.verdict == Excluded }

// refuses reports whether a job is refused without an ask.
func (k *class) refuses(j *job) bool { return k.fixed() || j.length() >= k.closed }

// reset forgets all refusals.
func (k *class) reset() {
	k.verdict, k.closed, k.by, k.probed, k.again, k.retryAt = Granted, unlimited, nil, false, false, time.Time{}
}

// shortest returns the least duration of the jobs that have no promise.
func (k *class) shortest() int64 {
	least := int64(unlimited)
	for _, l := range k.lanes {
		least = min(least, l.jobs.least(l.jobs.root))
	}
	return least
}

// probes reports whether the matcher is probed for the shortest job before this one asks: if the class is likely to be refused as
// a whole.
func (k *class) probes(j *job) bool {
	return j.promise == nil && !k.probed && (k.wasFull || k.by != nil) && k.shortest() < j.length()
}

// laneKey names a lane of a queue.
type laneKey struct{ class, namespace string }

// A queue is a queue of the core.
type queue struct {
	Queue
	// exists is false if there are only jobs that name it.
	exists    bool
	partition *partition
	classes   map[string]*class
	lanes     map[laneKey]*lane
	// order has all jobs that wait.
	order tree
	// holder is the job that is promised room.
	holder *job
	// first is the first job that was refused for room and has no promise, if no job with a promise is before it.
	first *job
	usage usage
	// again is the round in which the holder and the first job have asked once more.
	again uint64
	// size is the number of jobs, waiting and running.
	size int
}

// lets reports whether jobs of the queue may start.
func (q *queue) lets() bool { return q.exists && q.Started }

// leading returns the first of first and holder, or nil.
func (q *queue) leading() *job {
	if q.first == nil || q.holder != nil && q.holder.before(q.first) {
		return q.holder
	}
	return q.first
}

// candidate returns the first job of a lane that may ask, or nil. Whether a limit is reached is not looked at anew.
func (l *lane) candidate() *job {
	q, k := l.class.queue, l.class
	switch {
	case !q.lets():
		return nil
	case l.holder != nil:
		if l.mayAsk {
			return l.holder
		}
		return nil
	case k.fixed():
		return nil
	case q.Policy == EASY:
		return l.jobs.firstBelow(min(l.limited, k.closed))
	}
	j := l.jobs.firstBelow(l.limited)
	if j == nil || q.first == nil || j.before(q.first) {
		return j
	}
	if j != q.first || k.refuses(j) {
		return nil // nobody passes the first
	}
	return j
}

// A partition has the queues over the same nodes.
type partition struct {
	name   string
	queues []*queue
}
