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
	// changed is set when a pass has changed something.
	changed bool
}

type job struct {
	queue.Job
	running bool
	// promise is the zero value if there is none. lost is set if others may have taken it.
	promise queue.Promise
	lost    bool
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
		j.promise, j.lost = queue.Promise{}, false
	}
}

// Pass asks for all jobs, in their order. It reports whether anything has changed: then another pass may change more.
func (m *Model) Pass(now time.Time, matcher queue.Matcher) bool {
	for _, key := range m.ended {
		matcher.Cancel(key)
	}
	m.ended, m.first, m.changed = nil, map[string]*job{}, false
	for _, j := range m.order() {
		if m.ask(j, now, matcher) {
			m.ask(j, now, matcher) // its promise has ended: it asks as one without a promise
		}
	}
	return m.changed
}

// ask asks for one job. It returns true if the job has asked with a promise, and has none any more, and waits for room.
func (m *Model) ask(j *job, now time.Time, matcher queue.Matcher) bool {
	q, ok := m.queues[j.Queue]
	holder := m.holder(j.Queue)
	promised := holder == j
	switch {
	case !ok, !q.Started, j.Held, j.Unplaceable, q.Policy != queue.EASY && m.first[j.Queue] != nil:
		return false
	case m.overLimit(j, now):
		if promised && (j.lost || !now.Before(j.promise.From.Add(m.config.Retry))) {
			m.cancel(j, matcher)
		}
		return false
	}
	a := queue.Ask{Job: &j.Job}
	for _, o := range m.order() {
		switch f := m.first[o.Queue]; {
		case m.queues[o.Queue].Partition != q.Partition:
		case m.before(j, o) && o.promise != (queue.Promise{}) && !promised:
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
		m.lose(a.Ignore)
	case queue.Reserved:
		if promised && room.From.After(j.promise.From) && keeps() {
			return false
		}
		if !promised && holder != nil {
			m.cancel(holder, matcher)
		}
		m.changed = m.changed || j.promise != room
		if j.promise, j.lost = room, false; !promised {
			m.lose(a.Ignore)
			j.refused = time.Time{}
		}
		return false
	case queue.Unanswered:
		if q.Policy != queue.EASY {
			m.first[j.Queue] = j
		}
		return false
	case queue.Busy:
		switch {
		case promised && !keeps():
			m.cancel(j, matcher)
			return true
		case !promised && (inFront || q.Policy != queue.EASY) && m.first[j.Queue] == nil:
			if m.first[j.Queue] = j; j.refused.IsZero() {
				j.refused = now
			}
		}
		return false
	default:
		if promised {
			m.cancel(j, matcher)
		}
		return false
	}
	m.changed = true
	return false
}

func (m *Model) cancel(j *job, matcher queue.Matcher) {
	matcher.Cancel(j.Key)
	j.promise, j.lost, m.changed = queue.Promise{}, false, true
}

func (m *Model) lose(keys []types.NamespacedName) {
	for _, key := range keys {
		m.jobs[key].lost = m.jobs[key].promise != queue.Promise{}
	}
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

func (m *Model) compare(a, b *job) int {
	return cmp.Or(cmp.Compare(m.queues[b.Queue].Priority, m.queues[a.Queue].Priority), cmp.Compare(b.Priority, a.Priority),
		a.Created.Compare(b.Created), cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
}
