package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// promise promises room to a job that has had no promise. The queue promises room to one job only, so the promise of one
// after it ends.
func (p *pass) promise(j *job, room Promise) {
	q, k, ignored := j.queue, j.lane.class, p.ignored
	other := q.holder
	if other != nil {
		p.matcher.Cancel(other.Key)
		p.endPromise(other, j)
	}
	p.leaveHome(j, room)
	j.promise.askAt = p.nextAsk(room.From)
	j.lane.round = p.round
	p.decide(Decision{Key: j.Key, Change: Promised, Promise: room})
	for _, h := range ignored {
		if h != other {
			p.lose(h, j.Key)
		}
	}
	if f := q.first; f != nil && !f.before(j) {
		wasOverdue := p.isOverdue(q)
		if q.first = nil; wasOverdue {
			p.open(q.partition, opening{by: f})
		}
	}
	j.refused = time.Time{}
	p.close(k, j, j.length(), Busy)
}

// promiseAnew deals with a new promise of a job that has one. A later one counts only if the old one cannot be kept.
func (p *pass) promiseAnew(j *job, room Promise) {
	k, old := j.lane.class, j.promise
	if answered := !p.mayIgnore(j); answered {
		p.close(k, j, j.length(), Busy)
	}
	later := room.From.After(old.From)
	if later && p.keeps(j) {
		return
	}
	d := Decision{Key: j.Key, Change: Promised, Promise: room, Before: old.Promise}
	if later {
		d.By = p.because(j, p.avoided)
	}
	old.Promise, old.lost, old.takers = room, false, nil
	old.askAt = p.nextAsk(room.From)
	if d.Promise != d.Before {
		p.decide(d)
		p.open(j.queue.partition, opening{by: j})
	}
}

// keeps restores the promise that a job had before it asked, and reports whether it is kept.
func (p *pass) keeps(j *job) bool {
	return !j.promise.lost && p.avoided == nil && p.matcher.Restore(&j.Job, j.promise.Promise)
}

// because returns the key of the job before j that has cost it its promise: the one that took what was promised, or an
// overdue one, if there is one.
func (p *pass) because(j, overdue *job) types.NamespacedName {
	switch takers := j.promise.takers; {
	case len(takers) > 0:
		return takers[0]
	case overdue != nil:
		return overdue.Key
	}
	return types.NamespacedName{}
}

// endPromise ends the promise of a job that waits on, because of another one; nil is none.
func (p *pass) endPromise(j, because *job) {
	p.decide(Decision{Key: j.Key, Change: Unpromised, Before: j.promise.Promise, By: p.because(j, because)})
	p.takeHome(j)
	p.open(j.queue.partition, opening{by: j})
	p.ready.wake(j.lane)
}

// endBetweenPasses notes for the next pass that the promise of a job has ended.
func (t *turns) endBetweenPasses(j *job) {
	t.ended = append(t.ended, Decision{Key: j.Key, Change: Unpromised, Before: j.promise.Promise})
}

// holdBack deals with a promised job that a limit keeps from starting. It keeps its promise until its time has come.
func (p *pass) holdBack(j *job) {
	j.queue.usage.limited = true
	if kept := j.promise; kept.lost || !p.now.Before(kept.From.Add(p.config.Retry)) {
		p.matcher.Cancel(j.Key)
		p.endPromise(j, nil)
		return
	}
	j.lane.mayAsk = false
	j.promise.askAt = p.nextAsk(j.promise.From)
}

// lose makes a job ask anew, because what it was promised may be taken by these jobs or by others.
func (t *turns) lose(j *job, takers ...types.NamespacedName) {
	j.promise.lost, j.promise.takers = true, append(j.promise.takers, takers...)
	j.lane.mayAsk = true
	t.ready.wake(j.lane)
}

// mayIgnore reports whether a job would ask another question without its promise: if there are promises after it, which it
// would ignore.
func (t *turns) mayIgnore(j *job) bool {
	for _, q := range j.queue.partition.queues {
		if q.holder != nil && j.outranks(q.holder) {
			return true
		}
	}
	return false
}

// nextAsk returns when a job asks although nothing happens, that is promised room from a time on: then, and after that at
// intervals.
func (t *turns) nextAsk(from time.Time) time.Time {
	if t.now.Before(from) {
		return from
	}
	past := t.now.Sub(from)
	return t.now.Add(t.config.Retry - past%t.config.Retry)
}
