package queue

import (
	"maps"
	"slices"
	"time"
)

// turns says whose turn it is to ask.
type turns struct {
	config     Config
	partitions map[string]*partition
	// ready has the lanes that may have a job to ask.
	ready ready
	// round counts rounds. In a round each class asks until it is refused, each job with a promise asks once, and the first jobs of
	// queues ask twice at most. unfinished is set if the last pass has not come to the end of its round. What opens in the
	// midst of a round waits for the next one if it has asked already, so that the tail has its turn.
	round      uint64
	unfinished bool
	// openings counts what has let jobs ask again at once in this round.
	openings int
	// again are the classes, and the lanes of jobs with promises, that open in the next round.
	again      []*class
	againLanes []*lane
	// unanswered are classes that open after a time.
	unanswered []*class
	// ended are the promises that ended between passes.
	ended []Decision
	// now is the time of the last pass. It is used for what is reported between passes.
	now  time.Time
	lots uint32
}

// enterLane puts a job that waits into the lane of its class and namespace.
func (t *turns) enterLane(j *job) {
	q := j.queue
	k := q.classes[j.Class]
	if k == nil {
		k = &class{name: j.Class, queue: q, verdict: Granted, closed: unlimited, requests: j.Requests}
		q.classes[j.Class] = k
	}
	key := laneKey{k.name, j.Key.Namespace}
	l := q.lanes[key]
	if l == nil {
		l = &lane{class: k, namespace: key.namespace, jobs: tree{kind: byLane}, limited: unlimited, index: -1}
		q.lanes[key], k.lanes = l, append(k.lanes, l)
	}
	// Jobs of a class share what is equal, so that each of them takes less memory.
	if j.Class = k.name; maps.Equal(j.Requests, k.requests) {
		j.Requests = k.requests
	}
	k.size++
	j.lane = l
	l.jobs.insert(j, t.lot())
}

// leaveLane takes a job out of its lane.
func (t *turns) leaveLane(j *job) {
	l := j.lane
	l.jobs.remove(j)
	j.lane = nil
	l.class.size--
	t.dropEmpty(l)
}

// dropEmpty removes a lane that has no job, unless one is to come back to it, and a class without jobs.
func (t *turns) dropEmpty(l *lane) {
	k := l.class
	q := k.queue
	if h := q.holder; l.jobs.size > 0 || h != nil && h.promise.home == l {
		return
	}
	t.ready.leave(l)
	delete(q.lanes, laneKey{k.name, l.namespace})
	k.lanes = slices.DeleteFunc(k.lanes, func(o *lane) bool { return o == l })
	if k.size == 0 {
		delete(q.classes, k.name)
	}
}

// leaveHome gives a job with a new promise a lane of its own.
func (t *turns) leaveHome(j *job, p Promise) {
	home := j.lane
	home.jobs.remove(j)
	j.promise = &promise{Promise: p, home: home}
	j.lane = &lane{class: home.class, namespace: home.namespace, limited: unlimited, index: -1, holder: j}
	j.queue.holder = j
}

// takeHome puts a job whose promise ends back into its lane.
func (t *turns) takeHome(j *job) {
	home := j.promise.home
	t.ready.leave(j.lane)
	j.lane, j.promise, j.queue.holder = home, nil, nil
	home.jobs.insert(j, t.lot())
}

// mayAsk wakes the lane of a job that may ask from now on. A refusal of its class was the answer to another question if the job
// may ignore promises that were in the way then, or need not avoid nodes, and what a limit keeps for a promise may not be kept from it.
func (t *turns) mayAsk(j *job) {
	if j.precedes() {
		j.lane.limited = unlimited
		if k := j.lane.class; !k.fixed() && k.refuses(j) {
			t.openClass(k)
		}
	}
	t.ready.wake(j.lane)
}

// precedes reports whether the job is before one that keeps something from those after it.
func (a *job) precedes() bool {
	p := a.queue.partition
	return p != nil && slices.ContainsFunc(p.queues, func(q *queue) bool {
		return q.holder != nil && a.outranks(q.holder) || q.first != nil && a.before(q.first)
	})
}

// lot draws a random number. The numbers are the same in each run: they come from a xorshift of 32 bits (G. Marsaglia, 2003).
func (t *turns) lot() uint32 {
	if t.lots == 0 {
		t.lots = 2463534242
	}
	t.lots ^= t.lots << 13
	t.lots ^= t.lots >> 17
	t.lots ^= t.lots << 5
	return t.lots
}

// stopWaiting takes a job out of the order and its lane. What it kept from others is free.
func (t *turns) stopWaiting(j *job) {
	q := j.queue
	wasHolder := j.promise != nil
	if wasHolder {
		t.takeHome(j)
	}
	q.order.remove(j)
	if j.lane != nil {
		t.leaveLane(j)
	}
	switch {
	case wasHolder:
		t.open(q.partition, opening{by: j})
	case q.first == j:
		t.noLongerFirst(q)
	}
}
