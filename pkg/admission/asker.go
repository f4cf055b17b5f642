package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/flux-k8s/fluence/pkg/apis/fluence/v1alpha1"
	"github.com/flux-k8s/fluence/pkg/gang"
	"github.com/flux-k8s/fluence/pkg/jobspec"
	"github.com/flux-k8s/fluence/pkg/match"
	"github.com/flux-k8s/fluence/pkg/queue"
	"github.com/flux-k8s/fluence/pkg/translate"
)

// maxAllocation is the largest number of bytes of status.allocation.seats, so that a FluxJob can be written.
const maxAllocation = 256 << 10

// An asker asks the engine for the jobs of one pass. It implements queue.Matcher. Only the loop uses it.
type asker struct {
	cfg    *Config
	jobs   *jobs
	fleet  *fleet
	queues map[string]*jobQueue

	ctx   context.Context
	epoch match.Epoch
	now   time.Time
	// spent is the time that calls of the engine have taken since it was last set.
	spent time.Duration
	// before has the promises that were replaced in this pass, and later why they could not be restored.
	before map[types.NamespacedName]replaced
	later  map[types.NamespacedName]string
	// waitHelps remembers whether a job fits without the nodes that are left out for the present, by class and partition.
	waitHelps map[setKey]bool
	smaller   smaller
	// numbers has why jobs that are promised room could not start.
	numbers map[types.NamespacedName]numbers
	// freed is true if room was freed in the matcher of which the other groups were not told yet.
	freed bool
	// cannotReserve is true if the engine has no reservations.
	cannotReserve bool
}

// A replaced is a promise that was replaced, and the reservations that the question for it overlooked.
type replaced struct {
	*promise
	ignore []match.JobID
}

// begin begins a pass.
func (m *asker) begin(ctx context.Context, epoch match.Epoch, now time.Time) {
	m.ctx, m.epoch, m.now = ctx, epoch, now
	m.before, m.later = map[types.NamespacedName]replaced{}, map[types.NamespacedName]string{}
	m.smaller.forgetRefusals()
}

// call bounds one call of the engine.
func (m *asker) call(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Timeout)
	defer cancel()
	start := time.Now()
	defer func() { m.spent += time.Since(start) }()
	return f(ctx)
}

// A question is what is asked for a job.
type question struct {
	match.Request
	job     *queue.Job
	class   *class
	attempt int64
	set     *hostSet
	// refused is the number of nodes that are left out because filters have refused pods there.
	refused int
	// always and present are the constraints on nodes.
	always, present *jobspec.Constraint
}

// question returns what to ask for a job. It returns false if the job cannot ask now.
func (m *asker) question(a queue.Ask) (*question, bool) {
	q := m.queues[a.Job.Queue]
	if q == nil {
		return nil, false // the core is about to get to know it
	}
	r := &question{job: a.Job}
	rank, avoid, ok := m.read(r, a)
	if !ok {
		return nil, false
	}
	r.set = m.fleet.set(&q.partition, r.class.rules)
	r.always, r.present = r.set.always, r.set.now
	refused := m.fleet.refusedBy(r.class.name)
	if r.refused = len(refused); r.refused > 0 {
		r.present = both(r.present, except(refused))
	}
	for _, rules := range avoid {
		r.present = both(r.present, outside(m.fleet.set(&q.partition, rules)))
	}
	claims := m.cfg.Groups.Claims(rank)
	if len(claims.Nodes) > 0 {
		r.present = both(r.present, except(claims.Nodes))
	}
	r.Expected, r.Ignore = claims.Expected, append(r.Ignore, claims.Ignored...)
	if end := endAfter(m.now, a.Job.Duration, q.grace); !end.IsZero() {
		r.Duration = end.Sub(m.now)
	}
	return r, true
}

// read reads what is asked for a job, its place among groups that are in no queue, and the rules for nodes of the jobs that it avoids.
func (m *asker) read(r *question, a queue.Ask) (rank gang.Rank, avoid []*nodeRules, ok bool) {
	m.jobs.mu.Lock()
	defer m.jobs.mu.Unlock()
	j := m.jobs.byKey[a.Job.Key]
	if j == nil || j.class == nil || j.class.name != a.Job.Class || j.room != nil {
		return rank, nil, false // the core is about to get to know it
	}
	r.class, r.attempt = j.class, j.nextAttempt()
	id := j.jobID(r.attempt)
	r.Request = match.Request{Epoch: m.epoch, ID: id, Now: m.now, Policy: j.class.policy, Holder: j.key.String()}
	for _, key := range a.Ignore {
		if o := m.jobs.byKey[key]; o != nil && o.promise != nil {
			r.Ignore = append(r.Ignore, o.promise.job.ID)
		}
	}
	for _, key := range a.Avoid {
		if o := m.jobs.byKey[key]; o != nil && o.class != nil && o.class.err == nil {
			avoid = append(avoid, o.class.rules)
		}
	}
	return j.rank(), avoid, true
}

// setRequest sets what is costly to make of a question.
func (r *question) setRequest() {
	r.Jobspec, r.Keys = r.class.request(r.always, r.present), v1alpha1.SlotKeys(r.ID, int(r.class.pods))
}

// partitionOf returns the name of the partition in which a job asks.
func (m *asker) partitionOf(r *question) string { return m.queues[r.job.Queue].partition.name }

// outside returns the constraint that holds on no node of a set.
func outside(s *hostSet) *jobspec.Constraint {
	not := &jobspec.Constraint{Op: jobspec.OpNot}
	for _, c := range []*jobspec.Constraint{s.always, s.now} {
		if c != nil {
			not.Args = append(not.Args, *c)
		}
	}
	return not // without operands it holds nowhere
}

// Allocate implements queue.Matcher.
func (m *asker) Allocate(a queue.Ask) queue.Answer {
	q := m.queues[a.Job.Queue]
	// The first job of an EASY queue asks with Promise, and its refusal has numbers. The refusals of the other jobs need none.
	return m.ask(a, match.Allocate, q != nil && queue.Policy(q.object.Spec.Policy) == queue.EASY)
}

// Promise implements queue.Matcher.
func (m *asker) Promise(a queue.Ask) queue.Answer {
	if m.cannotReserve {
		return m.ask(a, match.Allocate, false)
	}
	return m.ask(a, match.AllocateOrElseReserve, false)
}

// Probe implements queue.Matcher.
func (m *asker) Probe(a queue.Ask, shorter time.Duration, later bool) queue.Answer {
	job := *a.Job
	if job.Duration = shorter; shorter > maxProbed {
		job.Duration = 0
	}
	a.Job = &job
	r, ok := m.question(a)
	if !ok {
		return queue.Answer{Verdict: queue.Unanswered}
	}
	if r.Op, r.Terse = match.WithoutAllocating, true; later && !m.cannotReserve {
		r.Op, r.Terse = match.WithoutAllocatingFuture, false
	}
	if a, follows := m.smaller.answer(r, m.partitionOf(r)); follows {
		return a
	}
	r.setRequest()
	found, err := m.matchOr(r, match.WithoutAllocating)
	switch {
	case err != nil:
		return m.refused(r, err)
	case found.Reserved:
		return queue.Answer{Verdict: queue.Reserved, From: found.Start, Nodes: len(nodesIn(found.Slots))}
	}
	return queue.Answer{Verdict: queue.Granted}
}

// maxProbed is longer than all time limits. The core has a longer time for jobs without one.
const maxProbed = 200 * 365 * 24 * time.Hour

// maxAsks bounds how often a job is asked for whose answer has nodes that it may not use any more.
const maxAsks = 3

// ask asks the engine for a job, and records what it answers.
func (m *asker) ask(a queue.Ask, op match.Op, terse bool) queue.Answer {
	for range maxAsks {
		r, ok := m.question(a)
		if !ok {
			return queue.Answer{Verdict: queue.Unanswered}
		}
		r.Op, r.Terse = op, terse
		if a, follows := m.smaller.answer(r, m.partitionOf(r)); follows {
			return a
		}
		r.setRequest()
		found, err := m.matchOr(r, match.Allocate)
		if op == match.AllocateOrElseReserve {
			m.dropPromise(r, err)
		}
		if err != nil {
			return m.refused(r, err)
		}
		if bad := m.notAllowed(r, found.Slots); len(bad) > 0 {
			m.release(r.ID)
			m.fleet.changed(bad...)
			continue
		}
		if found.Reserved {
			return m.reserved(r, found)
		}
		return m.granted(r, found)
	}
	return queue.Answer{Verdict: queue.Unanswered, Message: "its nodes change too often"}
}

func (m *asker) match(r *match.Request) (found *match.Allocation, err error) {
	err = m.call(func(ctx context.Context) (err error) {
		found, err = m.cfg.Engine.Match(ctx, *r)
		return err
	})
	return found, err
}

// matchOr asks the engine. If it cannot reserve, it is asked with another operation.
func (m *asker) matchOr(r *question, or match.Op) (*match.Allocation, error) {
	found, err := m.match(&r.Request)
	if r.Op == or || !errors.Is(err, match.ErrInvalid) || errors.Is(err, match.ErrPolicy) {
		return found, err
	}
	r.Op = or
	if found, err = m.match(&r.Request); !errors.Is(err, match.ErrInvalid) {
		m.cannotReserve = true
	}
	return found, err
}

// dropPromise forgets what a job was promised, because the engine has: it was asked anew. The promise stays if there was no answer.
func (m *asker) dropPromise(r *question, err error) {
	no, is := errors.AsType[*match.Refusal](err)
	if err != nil && !is || is && no.Reason.Code == match.TooHard {
		return
	}
	m.jobs.mu.Lock()
	defer m.jobs.mu.Unlock()
	if j := m.jobs.byKey[r.job.Key]; j != nil && j.promise != nil {
		if _, already := m.before[j.key]; !already {
			m.before[j.key] = replaced{j.promise, r.Ignore}
		}
		m.jobs.unpromise(j)
		m.smaller.forgetRefusals()
	}
}

// notAllowed returns the nodes of an answer that the job may not use any more.
func (m *asker) notAllowed(r *question, slots []match.Slot) (bad []string) {
	last := ""
	for i := range slots {
		name := slots[i].Node
		if name == last {
			continue
		}
		last = name
		if node, err := m.fleet.nodes.Get(name); err != nil || !r.set.allows(node) {
			bad = append(bad, name)
		}
	}
	return bad
}

// granted records the room that a job was given. The FluxJob does not show it yet.
func (m *asker) granted(r *question, a *match.Allocation) queue.Answer {
	slots := make([]Slot, len(a.Slots))
	for i := range a.Slots {
		slots[i] = Slot{a.Slots[i].Key, a.Slots[i].Node}
	}
	seats := seatsOf(slots)
	if text, err := json.Marshal(seats); err != nil || len(text) > maxAllocation {
		m.release(r.ID)
		return queue.Answer{Verdict: queue.Never, Message: fmt.Sprintf("the names of its %d nodes take %d bytes, more than %d: ask for fewer nodes", countNodes(slots), len(text), maxAllocation)}
	}
	room := &room{id: r.ID, attempt: r.attempt, at: m.now, seats: seats, slots: slots, left: make([]bool, len(slots)), set: r.class.amounts.Set()}
	if len(a.Slots) > 0 {
		room.holder = a.Slots[0].Holder
	}
	for i := range room.left {
		room.left[i] = true
	}
	if r.Duration > 0 {
		room.setEnd(m.now.Add(r.Duration).UTC())
	}
	m.jobs.mu.Lock()
	defer m.jobs.mu.Unlock()
	j := m.jobs.byKey[r.job.Key]
	if j == nil || j.room != nil || j.class != r.class {
		m.jobs.givenUp = append(m.jobs.givenUp, match.SlotRef{Job: r.ID})
		return queue.Answer{Verdict: queue.Unanswered}
	}
	m.jobs.unpromise(j)
	m.jobs.give(j, room)
	return queue.Answer{Verdict: queue.Granted}
}

// reserved records what a job is promised.
func (m *asker) reserved(r *question, a *match.Allocation) queue.Answer {
	set := r.class.amounts.Set()
	set.Expiration = a.End
	p := &promise{job: match.Job{ID: r.ID, Reserved: true, Start: a.Start, End: a.End}, nodes: nodesIn(a.Slots), since: m.now}
	for i := range a.Slots {
		s := &a.Slots[i]
		p.job.Slots = append(p.job.Slots, match.Slot{Key: s.Key, Node: s.Node, R: set, Holder: s.Holder})
	}
	m.jobs.mu.Lock()
	j := m.jobs.byKey[r.job.Key]
	if j == nil {
		m.jobs.givenUp = append(m.jobs.givenUp, match.SlotRef{Job: r.ID})
	} else {
		if o := m.before[j.key]; o.promise != nil && movedLittle(o.job.Start, a.Start, m.now) {
			p.since, p.why = o.since, o.why
		} else if t := j.promised; o.promise == nil && t != nil && movedLittle(t.At.Time, a.Start, m.now) {
			p.since, p.why = t.Since.Time, t.Why // of an earlier process
		}
		m.jobs.setPromise(j, p)
	}
	m.jobs.mu.Unlock()
	return queue.Answer{Verdict: queue.Reserved, From: a.Start, Nodes: len(p.nodes), Message: m.whyNotNow(r)}
}

// whyNotNow says in numbers why a job that is promised room cannot start now. It asks for that from time to time only.
func (m *asker) whyNotNow(r *question) string {
	if said, ok := m.numbers[r.job.Key]; ok && m.now.Sub(said.at) < numbersEvery {
		return said.text
	}
	ask := r.Request
	ask.Op = match.WithoutAllocating
	_, err := m.match(&ask)
	no, is := errors.AsType[*match.Refusal](err)
	if !is {
		return ""
	}
	if len(m.numbers) >= maxNumbers {
		clear(m.numbers)
	}
	said := numbers{m.now, m.message(r, no)}
	m.numbers[r.job.Key] = said
	return said.text
}

// numbers is why a job could not start at a time.
type numbers struct {
	at   time.Time
	text string
}

// maxNumbers bounds the jobs of which numbers are remembered, and the answers in waitHelps.
const maxNumbers = 4096

// movedLittle reports whether a promise has moved so little that it is not written again: by at most 10 s or 5 % of the time that is left.
func movedLittle(before, after, now time.Time) bool {
	return after.Sub(before).Abs() <= max(10*time.Second, before.Sub(now)/20)
}

// release frees what the engine has booked or reserved for a job. If that fails, it is tried again later.
func (m *asker) release(id match.JobID) { m.releaseSlots(match.SlotRef{Job: id}) }

// refused returns the answer that follows from an error.
func (m *asker) refused(r *question, err error) queue.Answer {
	no, is := errors.AsType[*match.Refusal](err)
	switch {
	case is:
		a := m.verdictOf(r, no)
		m.smaller.learn(r, m.partitionOf(r), no, a)
		return a
	case errors.Is(err, match.ErrInvalid):
		return queue.Answer{Verdict: queue.Never, Message: translate.Shorten("the matcher rejects the request: " + err.Error())}
	}
	klog.FromContext(m.ctx).V(2).Info("The matcher did not answer for a job of a queue", "job", r.job.Key, "err", err)
	if books := r.Op == match.Allocate || r.Op == match.AllocateOrElseReserve; books && !errors.Is(err, match.ErrUnavailable) && !errors.Is(err, match.ErrStale) {
		// It may have booked the room all the same. The next question is of another job.
		m.jobs.mu.Lock()
		defer m.jobs.mu.Unlock()
		if j := m.jobs.byKey[r.job.Key]; j != nil && j.promise == nil {
			m.jobs.givenUp = append(m.jobs.givenUp, match.SlotRef{Job: r.ID})
			j.attempt = r.attempt
		}
	}
	return queue.Answer{Verdict: queue.Unanswered}
}

// verdictOf returns the answer that follows from a refusal.
func (m *asker) verdictOf(r *question, no *match.Refusal) queue.Answer {
	a := queue.Answer{Verdict: queue.Busy, Message: m.message(r, no)}
	switch {
	case errors.Is(no, match.ErrUnsatisfiable):
		a.Verdict = queue.Never
	case r.Terse || no.Reason.Code == match.TooHard || no.Reason.Code == match.Overtaken:
	case !no.Reason.WaitingHelps:
		a.Verdict = queue.Down
	case r.set.notNow+r.refused > 0 && !m.waitingHelps(r):
		if a.Verdict = queue.Down; r.refused > 0 {
			a.Verdict = queue.Excluded
		}
	}
	return a
}

// message explains a refusal to the user.
func (m *asker) message(r *question, no *match.Refusal) string {
	bg := translate.Background{Pods: r.class.pods, Never: errors.Is(no, match.ErrUnsatisfiable)}
	bg.Blocker, bg.Promised = m.cfg.Groups.Names(no.Reason, r.job.Key)
	return translate.Message(no.Reason, bg)
}

// waitingHelps reports whether a job fits the nodes that it may use for the present, if all others have ended.
func (m *asker) waitingHelps(r *question) bool {
	key := setKey{m.partitionOf(r), r.class.name}
	if helps, known := m.waitHelps[key]; known {
		return helps
	}
	ask := r.Request
	always := both(r.set.always, r.set.now)
	if refused := m.fleet.refusedBy(r.class.name); len(refused) > 0 {
		always = both(always, except(refused))
	}
	ask.Op, ask.Terse, ask.Jobspec, ask.Ignore, ask.Expected = match.Satisfiability, true, r.class.request(always, nil), nil, nil
	_, err := m.match(&ask)
	helps := !errors.Is(err, match.ErrUnsatisfiable)
	if _, is := errors.AsType[*match.Refusal](err); err == nil || is {
		if len(m.waitHelps) >= maxNumbers {
			clear(m.waitHelps)
		}
		m.waitHelps[key] = helps
	}
	return helps
}

// Cancel implements queue.Matcher.
func (m *asker) Cancel(key types.NamespacedName) {
	m.jobs.mu.Lock()
	j := m.jobs.byKey[key]
	if j == nil || j.promise == nil {
		m.jobs.mu.Unlock()
		return
	}
	id := j.promise.job.ID
	m.jobs.unpromise(j)
	m.jobs.mu.Unlock()
	m.release(id)
}
