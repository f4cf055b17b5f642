package queue

import (
	"container/heap"
	"maps"
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

// A Core holds queues and their jobs. It is not safe for concurrent use.
type Core struct {
	turns
	queues map[string]*queue
	jobs   map[types.NamespacedName]*job
}

// New returns a Core without queues.
func New(c Config) *Core {
	if c.Retry == 0 {
		c.Retry = 10 * time.Second
	}
	return &Core{turns: turns{config: c, partitions: map[string]*partition{}}, queues: map[string]*queue{}, jobs: map[types.NamespacedName]*job{}}
}

// PutQueue adds a queue, or replaces the one of that name. What its first job is promised ends if the policy or the partition
// changes, or the queue stops.
func (c *Core) PutQueue(n Queue) {
	q := c.queueOf(n.Name)
	before := q.Queue
	if q.exists && equalQueues(before, n) {
		return
	}
	n.Limits.Requests = maps.Clone(n.Limits.Requests)
	if q.exists && (before.Policy != n.Policy || before.Partition != n.Partition || !n.Started) {
		c.letGo(q)
	}
	if q.exists && before.Partition != n.Partition {
		c.leavePartition(q)
	}
	q.Queue, q.exists = n, true
	if q.partition == nil {
		c.joinPartition(q)
	}
	heap.Init(&c.ready) // the priority counts in the order
	c.open(q.partition, opening{})
	c.wakeAll(q)
	c.passOverLimits(q)
}

func equalQueues(a, b Queue) bool {
	return a.Name == b.Name && a.Policy == b.Policy && a.Priority == b.Priority && a.Started == b.Started && a.Partition == b.Partition &&
		a.Limits.Running == b.Limits.Running && a.Limits.NamespaceRunning == b.Limits.NamespaceRunning && maps.Equal(a.Limits.Requests, b.Limits.Requests)
}

// DropQueue removes a queue. Its jobs stay: those that wait do not start, and those that run count if it comes back.
func (c *Core) DropQueue(name string) {
	q := c.queues[name]
	if q == nil || !q.exists {
		return
	}
	c.letGo(q)
	q.exists = false
	c.leavePartition(q)
	c.forget(q)
}

// letGo ends what the holder of a queue is promised, and lets the others pass its first job.
func (c *Core) letGo(q *queue) {
	if j := q.holder; j != nil {
		c.endBetweenPasses(j)
		c.takeHome(j)
	}
	c.noLongerFirst(q)
}

func (c *Core) joinPartition(q *queue) {
	p := c.partitions[q.Partition]
	if p == nil {
		p = &partition{name: q.Partition}
		c.partitions[p.name] = p
	}
	p.queues, q.partition = append(p.queues, q), p
}

func (c *Core) leavePartition(q *queue) {
	p := q.partition
	p.queues, q.partition = slices.DeleteFunc(p.queues, func(o *queue) bool { return o == q }), nil
	if c.open(p, opening{}); len(p.queues) == 0 {
		delete(c.partitions, p.name)
	}
}

// queueOf returns the queue of that name. One that does not exist yet has jobs all the same.
func (c *Core) queueOf(name string) *queue {
	q := c.queues[name]
	if q == nil {
		q = &queue{
			Queue: Queue{Name: name}, classes: map[string]*class{}, lanes: map[laneKey]*lane{}, order: tree{kind: byQueue},
			usage: usage{namespaces: map[string]int{}, requests: map[string]int64{}},
		}
		c.queues[name] = q
	}
	return q
}

// forget removes a queue that does not exist and has no jobs.
func (c *Core) forget(q *queue) {
	if !q.exists && q.size == 0 {
		delete(c.queues, q.Name)
	}
}

// PutWaiting adds a job that waits, or replaces the one with its key. What the one before was promised ends, and a job that ran does not
// count any more. To put an equal job again changes nothing.
func (c *Core) PutWaiting(n Job) {
	old := c.jobs[n.Key]
	if old != nil && !old.running && equalJobs(&old.Job, &n) {
		return
	}
	if old != nil && old.promise != nil {
		c.endBetweenPasses(old)
	}
	c.remove(old)
	j := c.add(n)
	if !j.Held && !j.Unplaceable {
		c.enterLane(j)
	}
	j.queue.order.insert(j, c.lot())
	if j.lane != nil {
		c.mayAsk(j)
	}
}

func equalJobs(a, b *Job) bool {
	return a.Key == b.Key && a.Queue == b.Queue && a.Priority == b.Priority && a.Created.Equal(b.Created) && a.Class == b.Class && a.Pods == b.Pods &&
		a.Duration == b.Duration && a.Held == b.Held && a.Unplaceable == b.Unplaceable && maps.Equal(a.Requests, b.Requests)
}

// PutRunning adds a job that was admitted, or says so of one that waits. It counts in the limits of its queue.
func (c *Core) PutRunning(n Job) {
	old := c.jobs[n.Key]
	if old != nil && old.running && equalJobs(&old.Job, &n) {
		return
	}
	c.remove(old)
	j := c.add(n)
	j.running = true
	j.queue.usage.add(j, 1)
	c.passOverLimits(j.queue)
}

// Drop removes a job, whether it waits or runs. What it was promised ends.
func (c *Core) Drop(key types.NamespacedName) {
	old := c.jobs[key]
	if old != nil && old.promise != nil {
		c.endBetweenPasses(old)
	}
	c.remove(old)
}

// Lost says that others have taken what a job was promised. It asks anew in the next pass, and its promise may be later.
func (c *Core) Lost(key types.NamespacedName) {
	if j := c.jobs[key]; j != nil && j.promise != nil {
		c.lose(j)
	}
}

// add makes a job of the core, which is neither in a lane nor in the order yet.
func (c *Core) add(n Job) *job {
	j := &job{Job: n, queue: c.queueOf(n.Queue)}
	j.Queue = j.queue.Name
	j.queue.size++
	c.jobs[n.Key] = j
	return j
}

// remove takes a job out of everything; nil is none.
func (c *Core) remove(j *job) {
	if j == nil {
		return
	}
	q := j.queue
	delete(c.jobs, j.Key)
	q.size--
	if j.running {
		q.usage.add(j, -1)
		c.reconsiderLimits(q)
	} else {
		c.stopWaiting(j)
	}
	c.forget(q)
}
