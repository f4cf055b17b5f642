package queue

import "time"

// A What says which event may have changed a matcher's answers.
type What int

const (
	// Room means: what jobs or others held is free, or ends earlier.
	Room What = iota
	// Nodes means: nodes were added, came back, changed, or may be used again by classes that they were excluded for; or
	// what does not end by itself, such as the pods that run on every node, has gone. It includes Room.
	Nodes
)

// Open says that refusals may not hold any more in these partitions, or in all if none is named.
func (c *Core) Open(what What, partitions ...string) {
	if len(partitions) == 0 {
		for _, p := range c.partitions {
			c.open(p, opening{nodes: what == Nodes})
		}
	}
	for _, name := range partitions {
		if p := c.partitions[name]; p != nil {
			c.open(p, opening{nodes: what == Nodes})
		}
	}
}

// An opening is why refusals may not hold any more.
type opening struct {
	// nodes is set if nodes have changed.
	nodes bool
	// by is the job that keeps less from others than before. It has kept nothing from those that outrank it, except
	// from their promises. It is nil if all may be helped.
	by *job
}

// open opens what an opening may help: the classes of a partition, and the promises that may become earlier ones.
func (t *turns) open(p *partition, o opening) {
	if o.by != nil && t.unfinished {
		t.openings++
	}
	for _, q := range p.queues {
		// The first of a queue asks a second time in the midst of a round.
		twice := o.by == nil && t.unfinished && q.again != t.round
		for _, k := range q.classes {
			opens := t.opens(k, o, twice)
			for _, l := range k.lanes {
				if l.limited < unlimited || opens {
					l.limited = unlimited
					t.ready.wake(l)
				}
			}
		}
		if h := q.holder; h != nil {
			t.letAsk(h, o, twice)
		}
		if twice {
			q.again = t.round
		}
	}
}

// opens opens a class if an opening may help it, and reports whether it has. If the class opens in the next round, it has not.
func (t *turns) opens(k *class, o opening, twice bool) bool {
	switch {
	case k.fixed() && !o.nodes, k.verdict == Granted:
		return false
	case k.fixed():
	case o.by != nil && k.by.outranks(o.by):
		return false
	case t.mustWait(k.round, o, twice && k.queue.first != nil && k.queue.first.lane.class == k):
		if !k.again {
			k.again = true
			t.again = append(t.again, k)
		}
		return false
	}
	k.reset()
	return true
}

// maxOpenings is how often in a round what asked in it already may ask again at once, since a job keeps less from others than
// before. Few jobs do in one pass, unless the matcher contradicts itself.
const maxOpenings = 100

// mustWait reports whether what asked last in some round has to wait for the next one. twice is set if it may ask a second time.
func (t *turns) mustWait(round uint64, o opening, twice bool) bool {
	return t.unfinished && round == t.round && !twice && (o.by == nil || t.openings > maxOpenings)
}

// letAsk lets a job with a promise ask.
func (t *turns) letAsk(h *job, o opening, twice bool) {
	if t.mustWait(h.lane.round, o, twice) {
		t.againLanes = append(t.againLanes, h.lane)
		return
	}
	h.lane.mayAsk = true
	t.ready.wake(h.lane)
}

// openClass opens one class at once.
func (t *turns) openClass(k *class) {
	k.reset()
	for _, l := range k.lanes {
		l.limited = unlimited
		t.ready.wake(l)
	}
}

// wakeAll lets all lanes of a queue ask whose classes are open.
func (t *turns) wakeAll(q *queue) {
	for _, l := range q.lanes {
		t.ready.wake(l)
	}
}

// nextRound begins a round with what was left for it.
func (t *turns) nextRound() {
	t.round++
	t.openings = 0
	classes, lanes := t.again, t.againLanes
	t.again, t.againLanes = nil, nil
	for _, k := range classes {
		if k.again {
			t.openClass(k)
		}
	}
	for _, l := range lanes {
		if l.holder.lane == l {
			l.mayAsk = true
			t.ready.wake(l)
		}
	}
}

// reconsiderLimits lets those ask of a queue that a limit has kept from it, after a job has ended.
func (t *turns) reconsiderLimits(q *queue) {
	if !q.usage.limited {
		return
	}
	q.usage.limited = false
	for _, l := range q.lanes {
		if l.limited == unlimited {
			continue
		}
		l.limited = unlimited
		if k, j := l.class, l.jobs.firstBelow(unlimited); k.verdict == Busy && j != nil && j.precedes() {
			t.openClass(k)
		}
		t.ready.wake(l)
	}
	if q.holder != nil {
		q.holder.lane.mayAsk = true
		t.ready.wake(q.holder.lane)
	}
}

// passOverLimits lets others pass the first job of a queue if a limit keeps it from starting.
func (t *turns) passOverLimits(q *queue) {
	if q.first != nil {
		if _, over := q.overLimit(q.first, t.now); over {
			t.noLongerFirst(q)
		}
	}
}

// noLongerFirst lets others pass the first job of a queue, if there is one. Another may become the first.
func (t *turns) noLongerFirst(q *queue) {
	j := q.first
	if j == nil {
		return
	}
	q.first = nil
	if q.Policy != EASY {
		t.wakeAll(q)
	}
	t.open(q.partition, opening{by: j})
}

// becomesFirst makes a job the first of its queue that is refused room without a promise, unless one before it is. counts is
// set if the time counts for which it is.
func (t *turns) becomesFirst(j *job, counts bool) {
	q := j.queue
	old := q.first
	if old != nil && old != j && old.before(j) {
		return
	}
	if counts && j.refused.IsZero() {
		j.refused = t.now
	}
	wasOverdue := t.isOverdue(q)
	if q.first = j; t.isOverdue(q) {
		t.askInItsWay(j)
	} else if wasOverdue {
		t.open(q.partition, opening{by: old})
	}
}

// isOverdue reports whether the first job of a queue has been refused for too long.
func (t *turns) isOverdue(q *queue) bool { return t.wasOverdue(q, t.now) }

func (t *turns) wasOverdue(q *queue, at time.Time) bool {
	return q.first != nil && t.config.MaxBypass > 0 && !q.first.refused.IsZero() && at.Sub(q.first.refused) >= t.config.MaxBypass
}

// askInItsWay lets all ask that are promised something, and come after a job that has become overdue.
func (t *turns) askInItsWay(j *job) {
	for _, q := range j.queue.partition.queues {
		if h := q.holder; h != nil && j.before(h) {
			h.lane.mayAsk = true
			t.ready.wake(h.lane)
		}
	}
}
