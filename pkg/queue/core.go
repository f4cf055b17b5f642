// Package queue decides which waiting job may ask for resources, in which order, and which one is promised room. It
// does no I/O, starts no goroutine and reads no clock: its caller says the time, and asks the matcher.
package queue

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Config are the settings of a Core.
type Config struct {
	// MaxBypass is for how long the first job of a queue may be refused without a promise before those after it
	// leave the nodes that it could use. Zero is for ever.
	MaxBypass time.Duration
	// Retry is after which time a job asks again whose promised time is over or that had no answer. Zero is 10 s.
	Retry time.Duration
}

// A What says which event may have changed a matcher's answers.
type What int

const (
	// Room means: what jobs or others held is free, or ends earlier.
	Room What = iota
	// Nodes means: nodes were added, came back, changed, or may be used again by classes that they were excluded for; or
	// what does not end by itself, such as the pods that run on every node, has gone. It includes Room.
	Nodes
)

// A Core holds queues and their jobs. It is not safe for concurrent use.
type Core struct {
	config  Config
	queues  map[string]Queue
	jobs    map[types.NamespacedName]*entry
	cancels []types.NamespacedName
	dirty   bool
}

type entry struct {
	Job
	running bool
	promise Promise
	lost    bool
	by      types.NamespacedName
	refused time.Time
	message string
}

// New returns a Core without queues.
func New(c Config) *Core {
	return &Core{config: c, queues: map[string]Queue{}, jobs: map[types.NamespacedName]*entry{}}
}

// PutQueue adds a queue, or replaces the one of that name.
func (c *Core) PutQueue(q Queue) { c.queues[q.Name], c.dirty = q, true }

// DropQueue removes a queue. Its jobs stay: those that wait do not start, and those that run count if it comes back.
func (c *Core) DropQueue(name string) { delete(c.queues, name); c.dirty = true }

// PutWaiting adds a job that waits, or replaces the one with its key. A job that ran goes back. The promise of a job whose
// queue, class, priority, creation or duration changes ends. To put an equal job again changes nothing.
func (c *Core) PutWaiting(j Job) { c.put(j, false) }

// PutRunning adds a job that was admitted, or says so of one that waits. It counts in the limits of its queue.
func (c *Core) PutRunning(j Job) { c.put(j, true) }

func (c *Core) put(j Job, running bool) {
	e := &entry{Job: j, running: running}
	if old := c.jobs[j.Key]; old != nil && old.promise != (Promise{}) {
		c.cancels = append(c.cancels, j.Key)
	}
	c.jobs[j.Key], c.dirty = e, true
}

// Drop removes a job, whether it waits or runs.
func (c *Core) Drop(key types.NamespacedName) {
	if e := c.jobs[key]; e != nil && e.promise != (Promise{}) {
		c.cancels = append(c.cancels, key)
	}
	delete(c.jobs, key)
	c.dirty = true
}

// Lost says that others have taken what a job was promised. It asks anew in the next pass, and its promise may be later.
func (c *Core) Lost(key types.NamespacedName) {
	if e := c.jobs[key]; e != nil {
		e.lost, c.dirty = true, true
	}
}

// Open says that refusals may not hold any more in these partitions, or in all if none is named.
func (c *Core) Open(what What, partitions ...string) { c.dirty = true }

// Pending reports whether a pass has something to ask now.
func (c *Core) Pending() bool { return c.dirty }

// NextAt returns when a pass is due although nothing happens. The zero time is never.
func (c *Core) NextAt() time.Time {
	var at time.Time
	for _, e := range c.jobs {
		if f := e.promise.From; !f.IsZero() && (at.IsZero() || f.Before(at)) {
			at = f
		}
	}
	return at
}

// Overdue returns the jobs that have been refused for too long, in their order: others leave nodes that these could use.
func (c *Core) Overdue() []types.NamespacedName { return nil }

// State returns where a waiting job stands. It returns false if there is no such job.
func (c *Core) State(key types.NamespacedName) (State, bool) {
	e := c.jobs[key]
	if e == nil || e.running {
		return State{}, false
	}
	s := State{Reason: NoRoom, Promise: e.promise, Message: e.message}
	for i, o := range c.order() {
		if o == e {
			s.Position = i + 1
		}
		s.Of++
	}
	return s, true
}

// Summary returns a queue in numbers. It returns false if there is no such queue.
func (c *Core) Summary(name string) (Summary, bool) {
	_, ok := c.queues[name]
	s := Summary{Used: map[string]int64{}}
	for _, e := range c.jobs {
		switch {
		case e.Queue != name:
		case e.running:
			s.Running++
			for r, n := range e.Requests {
				s.Used[r] += n
			}
		default:
			s.Waiting++
		}
	}
	return s, ok
}

// Pass lets jobs ask, in their order, and returns what has changed. Before each question it calls more, if that is not
// nil: if it returns false, the pass ends early, and the next one goes on there. Each call considers every job at most once.
func (c *Core) Pass(now time.Time, m Matcher, more func() bool) (decisions []Decision) {
	for _, key := range c.cancels {
		m.Cancel(key)
	}
	c.cancels, c.dirty = nil, false
	closed := map[string]bool{}
	for _, e := range c.order() {
		q := c.queues[e.Queue]
		if !q.Started || e.Held || e.Unplaceable || closed[q.Name] {
			continue
		}
		if more != nil && !more() {
			c.dirty = true
			return decisions
		}
		ask, holder := Ask{Job: &e.Job}, false
		for _, o := range c.order() {
			if o.promise != (Promise{}) && c.queues[o.Queue].Partition == q.Partition {
				if c.compare(e, o) < 0 && e.promise == (Promise{}) {
					ask.Ignore = append(ask.Ignore, o.Key)
				}
				holder = holder || o != e && o.Queue == e.Queue && c.compare(o, e) < 0
			}
		}
		var a Answer
		if q.Policy == EASY && !holder {
			a = m.Promise(ask)
		} else {
			a = m.Allocate(ask)
		}
		e.message = a.Message
		before := e.promise
		switch a.Verdict {
		case Granted:
			e.running, e.promise = true, Promise{}
			decisions = append(decisions, Decision{Key: e.Key, Change: Started, Before: before})
		case Reserved:
			e.promise = Promise{a.From, a.Nodes}
			decisions = append(decisions, Decision{Key: e.Key, Change: Promised, Promise: e.promise, Before: before})
		case Busy:
			closed[q.Name] = q.Policy != EASY
		}
	}
	return decisions
}

// order returns all waiting jobs in their order.
func (c *Core) order() []*entry {
	var all []*entry
	for _, e := range c.jobs {
		if !e.running {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, c.compare)
	return all
}

func (c *Core) compare(a, b *entry) int {
	return cmp.Or(
		cmp.Compare(c.queues[b.Queue].Priority, c.queues[a.Queue].Priority),
		cmp.Compare(b.Priority, a.Priority),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Key.Namespace, b.Key.Namespace),
		cmp.Compare(a.Key.Name, b.Key.Name),
	)
}
