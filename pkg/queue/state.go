package queue

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// State returns where a waiting job stands. It returns false if there is no such job.
func (c *Core) State(key types.NamespacedName) (State, bool) {
	j := c.jobs[key]
	if j == nil || j.running {
		return State{}, false
	}
	s := State{Promise: promiseOf(j)}
	if j.lane != nil {
		s.Message = j.lane.class.message
	}
	s.Reason, s.Limit = c.reason(j)
	return s, true
}

// reason returns why a job waits, and the limit that it would exceed now.
func (c *Core) reason(j *job) (Reason, LimitState) {
	q := j.queue
	switch {
	case j.Held:
		return Held, LimitState{}
	case j.Unplaceable:
		return Unplaceable, LimitState{}
	case !q.exists:
		return NoQueue, LimitState{}
	case !q.Started:
		return QueueStopped, LimitState{}
	}
	k := j.lane.class
	switch k.verdict {
	case Never:
		return NeverFits, LimitState{}
	case Down:
		return NodesDown, LimitState{}
	case Excluded:
		return NodesExcluded, LimitState{}
	default: // the job itself decides
	}
	limit, over := q.overLimit(j, c.now)
	switch {
	case j.promise != nil:
		return HasPromise, limit
	case over:
		return LimitReached, limit
	}
	switch {
	case q.Policy != EASY && q.first != nil && q.first.before(j), !k.refuses(j):
		return NotItsTurn, LimitState{}
	case k.verdict == Unanswered:
		return NoAnswer, LimitState{}
	}
	return NoRoom, LimitState{}
}

func promiseOf(j *job) Promise {
	if j.promise == nil {
		return Promise{}
	}
	return j.promise.Promise
}

// Summary returns a queue in numbers. It returns false if there is no such queue.
func (c *Core) Summary(name string) (Summary, bool) {
	q := c.queues[name]
	if q == nil || !q.exists {
		return Summary{}, false
	}
	s := Summary{Waiting: q.order.size, Running: q.usage.running, Used: maps.Clone(q.usage.requests)}
	if q.order.root != nil {
		s.Oldest = time.UnixMicro(q.order.least(q.order.root))
	}
	if f := q.leading(); f != nil {
		s.First, s.Promise = f.Key, promiseOf(f)
	}
	return s, true
}

// First returns the first job of a queue that waits for room. It returns false if there is none.
func (c *Core) First(name string) (types.NamespacedName, bool) {
	if q := c.queues[name]; q != nil && q.exists {
		if f := q.leading(); f != nil {
			return f.Key, true
		}
	}
	return types.NamespacedName{}, false
}
