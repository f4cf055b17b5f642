// Package model is a simple form of package queue, to check it: it asks for every job in every pass, and remembers nothing
// of refusals. With it comes a cluster of pools whose answers are exact.
package model

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-k8s/fluence/pkg/queue"
)

// A Model holds queues and their jobs.
type Model struct {
	config queue.Config
	queues map[string]queue.Queue
	jobs   map[types.NamespacedName]*job
	ended  []types.NamespacedName
	// first has, for each queue, the first job that the last pass refused, if it has no promise and none with a promise is
	// before it.
	first map[string]*job
	// changed is set when a pass has changed something. opened is set when a job keeps less from others than before.
	changed, opened bool
}

type job struct {
	queue.Job
	running bool
	// promise is the zero value if there is none. lost is set if others may have taken it.
	promise queue.Promise
	lost    bool
	// takers are the jobs that may have.
	takers []types.NamespacedName
	// refused is since when the job is refused as the first of its queue.
	refused time.Time
}

// New returns a Model without queues. The settings are those of queue.New, without defaults.
func New(c queue.Config) *Model {
	return &Model{config: c, queues: map[string]queue.Queue{}, jobs: map[types.NamespacedName]*job{}}
}

// PutQueue adds or replaces a queue.
func (m *Model) PutQueue(q queue.Queue) {
	if old, ok := m.queues[q.Name]; ok && (old.Policy != q.Policy || old.Partition != q.Partition || !q.Started) {
		m.DropQueue(q.Name)
	}
	m.queues[q.Name] = q
}

// DropQueue removes a queue.
func (m *Model) DropQueue(name string) {
	if h := m.holder(name); h != nil {
		m.end(h)
	}
	delete(m.queues, name)
}

// PutWaiting adds or replaces a job that waits.
func (m *Model) PutWaiting(n queue.Job) {
	if old := m.jobs[n.Key]; old == nil || old.running || !equal(old.Job, n) {
		m.Drop(n.Key)
		m.jobs[n.Key] = &job{Job: n}
	}
}

func equal(a, b queue.Job) bool {
	same := maps.Equal(a.Requests, b.Requests) && a.Created.Equal(b.Created)
	return same && a.Key == b.Key && a.Queue == b.Queue && a.Priority == b.Priority && a.Class == b.Class && a.Pods == b.Pods &&
		a.Duration == b.Duration && a.Held == b.Held && a.Unplaceable == b.Unplaceable
}

// PutRunning adds a job that was admitted.
func (m *Model) PutRunning(n queue.Job) { m.jobs[n.Key] = &job{Job: n, running: true} }

// Drop removes a job.
func (m *Model) Drop(key types.NamespacedName) {
	if j := m.jobs[key]; j != nil {
		m.end(j)
		delete(m.jobs, key)
	}
}

// Lost says that others have taken what a job was promised.
func (m *Model) Lost(key types.NamespacedName) {
	if j := m.jobs[key]; j != nil {
		j.lost = j.promise != queue.Promise{}
	}
}

// end ends the promise of a job between two passes.
func (m *Model) end(j *job) {
	if j.promise != (queue.Promise{}) {
		m.ended = append(m.ended, j.Key)
		j.renew(queue.Promise{})
	}
}

// Pass asks for all jobs, in their order. It reports whether anything has changed: then another pass may change more.
func (m *Model) Pass(now time.Time, matcher queue.Matcher) bool {
	for _, key := range m.ended {
		matcher.Cancel(key)
	}
	m.ended, m.changed = nil, false
	for m.opened = true; m.opened; { // from the first job on again
		m.first, m.opened = map[string]*job{}, false
		for _, j := range m.order() {
			if m.ask(j, now, matcher); m.opened {
				break
			}
		}
	}
	return m.changed
}

// ask asks for one job.
func (m *Model) ask(j *job, now time.Time, matcher queue.Matcher) {
	q, ok := m.queues[j.Queue]
	holder := m.holder(j.Queue)
	promised := holder == j
	switch {
	case !ok, !q.Started, j.Held, j.Unplaceable, q.Policy != queue.EASY && m.first[j.Queue] != nil:
		return
	case m.overLimit(j, now):
		if promised && (j.lost || !now.Before(j.promise.From.Add(m.config.Retry))) {
			m.cancel(j, matcher)
		}
		return
	}
	a := queue.Ask{Job: &j.Job}
	for _, o := range m.order() {
		switch f := m.first[o.Queue]; {
		case m.queues[o.Queue].Partition != q.Partition:
		case o != j && o.promise != (queue.Promise{}) && m.ignores(j, o):
			a.Ignore = append(a.Ignore, o.Key)
		case o == f && m.before(o, j) && m.isOverdue(o, now):
			a.Avoid = append(a.Avoid, o.Key)
		}
	}
	inFront := q.Policy == queue.EASY && (holder == nil || !m.before(holder, j))
	answer := matcher.Allocate
	if inFront {
		answer = matcher.Promise
	}
	got := answer(a)
	room := queue.Promise{From: got.From, Nodes: got.Nodes}
	keeps := func() bool { return !j.lost && len(a.Avoid) == 0 && matcher.Restore(&j.Job, j.promise) }
	switch got.Verdict {
	case queue.Granted:
		j.running, j.promise = true, queue.Promise{}
		m.lose(a.Ignore, j.Key)
		m.changed, m.opened = true, promised
	case queue.Reserved:
		switch {
		case promised && room.From.After(j.promise.From) && keeps():
		case promised:
			m.changed, m.opened = m.changed || j.promise != room, j.promise != room
			j.renew(room)
		default:
			if holder != nil {
				m.cancel(holder, matcher)
			}
			j.renew(room)
			j.refused, m.changed = time.Time{}, true
			m.lose(a.Ignore, j.Key)
		}
	case queue.Busy:
		switch {
		case promised && !keeps():
			m.cancel(j, matcher)
		case !promised && (inFront || q.Policy != queue.EASY) && m.first[j.Queue] == nil:
			if m.first[j.Queue] = j; j.refused.IsZero() {
				j.refused = now
			}
		}
	case queue.Unanswered:
		if q.Policy != queue.EASY {
			m.first[j.Queue] = j
		}
	default:
		if promised {
			m.cancel(j, matcher)
		}
	}
}

func (m *Model) cancel(j *job, matcher queue.Matcher) {
	matcher.Cancel(j.Key)
	j.renew(queue.Promise{})
	m.changed, m.opened = true, true
}

// renew gives a job another promise or none.
func (j *job) renew(p queue.Promise) { j.promise, j.lost, j.takers = p, false, nil }

// lose makes those ask anew that still have a promise, since another job may have taken it.
func (m *Model) lose(keys []types.NamespacedName, taker types.NamespacedName) {
	for _, key := range keys {
		if h := m.jobs[key]; h.promise != (queue.Promise{}) {
			h.lost, h.takers = true, append(h.takers, taker)
		}
	}
}

// First returns the first job of a queue that was refused for room, or that has a promise.
func (m *Model) First(name string) types.NamespacedName {
	first, holder := m.first[name], m.holder(name)
	switch {
	case first == nil && holder == nil:
		return types.NamespacedName{}
	case first == nil || holder != nil && m.before(holder, first):
		return holder.Key
	}
	return first.Key
}

// Overdue returns the jobs that have been refused for too long, in their order.
func (m *Model) Overdue(now time.Time) (keys []types.NamespacedName) {
	for _, j := range m.order() {
		if m.first[j.Queue] == j && m.isOverdue(j, now) {
			keys = append(keys, j.Key)
		}
	}
	return keys
}

// holder returns the job of a queue that has a promise, or nil.
func (m *Model) holder(name string) *job {
	for _, j := range m.jobs {
		if j.Queue == name && j.promise != (queue.Promise{}) {
			return j
		}
	}
	return nil
}

// overLimit reports whether a job would exceed a limit now, or when the job before it starts that has a promise.
func (m *Model) overLimit(j *job, now time.Time) bool {
	limits := m.queues[j.Queue].Limits
	running, same, used := 1, 1, maps.Clone(j.Requests)
	for _, o := range m.jobs {
		kept := o.promise != queue.Promise{} && o != j && m.before(o, j) && (j.Duration == 0 || now.Add(j.Duration).After(o.promise.From))
		if o.Queue != j.Queue || !o.running && !kept {
			continue
		}
		running++
		if o.Key.Namespace == j.Key.Namespace {
			same++
		}
		for resource := range used {
			used[resource] += o.Requests[resource]
		}
	}
	over := limits.Running > 0 && running > limits.Running || limits.NamespaceRunning > 0 && same > limits.NamespaceRunning
	for resource, most := range limits.Requests {
		over = over || j.Requests[resource] > 0 && used[resource] > most
	}
	return over
}

func (m *Model) isOverdue(j *job, now time.Time) bool {
	return m.config.MaxBypass > 0 && !j.refused.IsZero() && now.Sub(j.refused) >= m.config.MaxBypass
}

// order returns the jobs that wait, in their order.
func (m *Model) order() []*job {
	waiting := slices.DeleteFunc(slices.Collect(maps.Values(m.jobs)), func(j *job) bool { return j.running })
	slices.SortFunc(waiting, m.compare)
	return waiting
}

func (m *Model) before(a, b *job) bool { return m.compare(a, b) < 0 }

// ignores reports whether a job ignores the promise of another one.
func (m *Model) ignores(j, h *job) bool {
	if j.promise == (queue.Promise{}) {
		return m.outranks(j, h)
	}
	return slices.Contains(h.takers, j.Key)
}

// outranks reports whether a job without a promise may ignore the promise of another one.
func (m *Model) outranks(a, b *job) bool {
	p, q := m.queues[a.Queue].Priority, m.queues[b.Queue].Priority
	return a.Queue == b.Queue && m.before(a, b) || a.Queue != b.Queue && (p > q || p == q && a.Priority > b.Priority)
}

func (m *Model) compare(a, b *job) int {
	return cmp.Or(cmp.Compare(m.queues[b.Queue].Priority, m.queues[a.Queue].Priority), cmp.Compare(b.Priority, a.Priority),
		a.Created.Compare(b.Created), cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
}
