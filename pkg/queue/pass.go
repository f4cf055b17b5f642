package queue

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A pass is one call of Pass.
type pass struct {
	*turns
	matcher   Matcher
	decisions []Decision
	// ignore and avoid are those of the ask. They are used again for each.
	ignore, avoid []types.NamespacedName
	// ignored are the jobs of ignore. avoided is the first of the jobs of avoid, or nil.
	ignored []*job
	avoided *job
}

// Pass lets jobs ask, in their order, and returns what has changed. Before each ask it calls more, if that is not
// nil: if it returns false, the pass ends early, and the next one goes on there. A call makes one round at most. What
// opens during a round, and has asked in it already, waits for the next one: then Pending returns true.
func (c *Core) Pass(now time.Time, m Matcher, more func() bool) []Decision {
	p := &pass{turns: &c.turns, matcher: m}
	p.begin(now)
	p.tellEnded(c.jobs)
	for {
		j := p.ready.pick()
		if j == nil {
			p.unfinished = false
			return p.decisions
		}
		if p.skip(j) {
			continue
		}
		if more != nil && !more() {
			return p.decisions
		}
		p.ask(j)
	}
}

// Pending reports whether a pass has something to do now.
func (c *Core) Pending() bool {
	return len(c.ready) > 0 || len(c.again) > 0 || len(c.againLanes) > 0 || len(c.ended) > 0
}

// NextAt returns when a pass is due although nothing happens. The zero time is never.
func (c *Core) NextAt() time.Time {
	var next time.Time
	add := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, q := range c.queues {
		if q.holder != nil {
			add(q.holder.promise.askAt)
		}
		if j := q.first; j != nil && !j.refused.IsZero() && c.config.MaxBypass > 0 && !c.isOverdue(q) {
			add(j.refused.Add(c.config.MaxBypass))
		}
	}
	for _, k := range c.unanswered {
		add(k.retryAt)
	}
	return next
}

// begin does what is due by time.
func (t *turns) begin(now time.Time) {
	last := t.now
	t.now = now
	if !t.unfinished {
		t.nextRound()
	}
	t.unfinished = true
	for _, partition := range t.partitions {
		for _, q := range partition.queues {
			if h := q.holder; h != nil && !h.promise.askAt.After(now) {
				h.lane.mayAsk = true
				t.ready.wake(h.lane)
			}
			if t.isOverdue(q) && !t.wasOverdue(q, last) {
				t.askInItsWay(q.first)
			}
		}
	}
	waiting := t.unanswered
	t.unanswered = nil
	for _, k := range waiting {
		switch {
		case k.retryAt.IsZero():
		case k.retryAt.After(now):
			t.unanswered = append(t.unanswered, k)
		default:
			t.openClass(k)
		}
	}
}

// tellEnded cancels the promises that ended since the last pass.
func (p *pass) tellEnded(jobs map[types.NamespacedName]*job) {
	for _, d := range p.ended {
		p.matcher.Cancel(d.Key)
		if j := jobs[d.Key]; j != nil && !j.running {
			p.decide(d)
		}
	}
	p.ended = nil
}

// skip reports whether a limit keeps a job from asking although it is its turn.
func (p *pass) skip(j *job) bool {
	q, l := j.queue, j.lane
	limit, over := q.overLimit(j, p.now)
	switch {
	case !over:
		return false
	case l.holder == j:
		p.holdBack(j)
	default:
		q.usage.limited = true
		l.limited = 0
		if limit.Used+limit.Wanted <= limit.Max {
			l.limited = j.length() // one that ends before the promise may start
		}
	}
	return true
}

// ask lets a job ask.
func (p *pass) ask(j *job) {
	q, k := j.queue, j.lane.class
	a := p.question(j)
	// Only the jobs up to the one that is promised room ask for a promise.
	inFront := q.Policy == EASY && (q.holder == nil || q.holder == j || j.before(q.holder))
	length := j.length()
	var answer Answer
	switch {
	case q.Policy == EASY && k.probes(j):
		length = k.shortest()
		answer = p.matcher.Probe(a, time.Duration(length), inFront)
		if k.probed = answer.Verdict == Granted || answer.Verdict == Reserved; k.probed {
			k.wasFull = false
			return // the job itself asks next
		}
	case inFront:
		answer = p.matcher.Promise(a)
	default:
		answer = p.matcher.Allocate(a)
	}
	if j.promise != nil {
		j.lane.mayAsk, j.lane.round = false, p.round
		j.promise.askAt = p.nextAsk(j.promise.From)
	}
	if answer.Verdict != Granted {
		k.message = answer.Message
	}
	switch v := answer.Verdict; {
	case v == Granted:
		k.wasFull = false
		p.start(j)
	case v == Reserved && inFront && j.promise == nil:
		p.promise(j, Promise{answer.From, answer.Nodes})
	case v == Reserved && inFront:
		p.promiseAnew(j, Promise{answer.From, answer.Nodes})
	case v == Never, v == Down, v == Excluded:
		p.outOfReach(j, v)
	case v == Unanswered:
		p.notAnswered(j, length)
	default:
		p.busy(j, length, inFront || q.Policy != EASY)
	}
}

// question returns what a job asks.
func (p *pass) question(j *job) Ask {
	p.ignore, p.avoid, p.ignored, p.avoided = p.ignore[:0], p.avoid[:0], p.ignored[:0], nil
	for _, q := range j.queue.partition.queues {
		if h := q.holder; h != nil && h != j && j.ignores(h) {
			p.ignore, p.ignored = append(p.ignore, h.Key), append(p.ignored, h)
		}
		if f := q.first; f != nil && f != j && f.before(j) && p.isOverdue(q) {
			if p.avoid = append(p.avoid, f.Key); p.avoided == nil || f.before(p.avoided) {
				p.avoided = f
			}
		}
	}
	return Ask{Job: &j.Job, Ignore: p.ignore, Avoid: p.avoid}
}

// start counts a job as running.
func (p *pass) start(j *job) {
	d := Decision{Key: j.Key, Change: Started}
	if j.promise != nil {
		d.Before = j.promise.Promise
	}
	p.decide(d)
	ignored := p.ignored
	p.stopWaiting(j)
	j.running = true
	j.queue.usage.add(j, 1)
	for _, h := range ignored {
		p.lose(h, j.Key)
	}
	p.passOverLimits(j.queue)
}

// outOfReach closes the class of a job for all durations.
func (p *pass) outOfReach(j *job, v Verdict) {
	q, k := j.queue, j.lane.class
	if j.promise != nil {
		p.matcher.Cancel(j.Key)
		p.endPromise(j, nil)
	}
	k.reset()
	k.verdict, k.round = v, p.round
	if q.first != nil && q.first.lane.class == k {
		p.noLongerFirst(q)
	}
}

// notAnswered closes the class of a job for a while, for jobs of this length and longer ones.
func (p *pass) notAnswered(j *job, length int64) {
	retryAt := p.now.Add(p.config.Retry)
	if j.promise != nil {
		j.promise.askAt = retryAt
		return
	}
	k := j.lane.class
	p.close(k, j, length, Unanswered)
	k.retryAt = retryAt
	p.unanswered = append(p.unanswered, k)
	if j.queue.Policy != EASY {
		p.becomesFirst(j, false)
	}
}

// busy closes the class of a job that was refused for room, for jobs of this length and longer ones. mayBeFirst is set if no job with a promise is before it.
func (p *pass) busy(j *job, length int64, mayBeFirst bool) {
	k := j.lane.class
	kept, answered := false, true
	if j.promise != nil {
		answered = !p.mayIgnore(j)
		if kept = p.keeps(j); !kept {
			p.endPromise(j, p.avoided)
		}
	}
	// Without its promise it may ignore those after it. That is another question.
	if !answered {
		return
	}
	if p.close(k, j, length, Busy); mayBeFirst && !kept {
		p.becomesFirst(j, true)
	}
}

// close closes a class for jobs of this length and longer ones, after the refusal of a job.
func (p *pass) close(k *class, j *job, length int64, v Verdict) {
	k.verdict, k.round = v, p.round
	k.closed = min(k.closed, length)
	k.wasFull = k.closed <= k.shortest()
	if k.by == nil || k.by.before(j) {
		k.by = j
	}
}

func (p *pass) decide(d Decision) { p.decisions = append(p.decisions, d) }
