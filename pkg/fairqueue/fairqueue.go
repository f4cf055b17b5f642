// Package fairqueue is a work queue in which namespaces take turns: however much there is to do
// for one of them, each of the others waits for one item of it at the most.
package fairqueue

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// New returns a work queue with that name in metrics, in the order of NewRoundRobin. Without a name it
// has no metrics.
func New[T comparable](name string, limiter workqueue.TypedRateLimiter[T], namespace func(T) string) workqueue.TypedRateLimitingInterface[T] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{
		Name:          name,
		DelayingQueue: NewDelaying(name, NewRoundRobin(namespace)),
	})
}

// NewDelaying returns a work queue that limits no rates, in the order given.
func NewDelaying[T comparable](name string, order *RoundRobin[T]) workqueue.TypedDelayingInterface[T] {
	return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{
		Name:  name,
		Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: order}),
	})
}

// An Order says which item of a work queue is next. Namespaces take turns: the next item is of the
// namespace that has waited longest. Within a namespace urgent items go before the others, and older
// ones before newer ones. A work queue calls an Order under its own lock. Hurry may be called at any
// time.
type RoundRobin[T comparable] struct {
	namespace func(T) string
	lines     map[string]*line[T]
	// turns are the namespaces that have an item here, the next one first.
	turns []string
	size  int

	mu     sync.Mutex
	urgent map[T]bool
}

// A line is the items of one namespace. An item may stand in it twice, and is taken once.
type line[T comparable] struct {
	first, rest []T
	// pending are the items that are to be taken, and whether they stand in first.
	pending map[T]bool
}

// NewRoundRobin returns an order without items. The namespace of an item never changes.
func NewRoundRobin[T comparable](namespace func(T) string) *RoundRobin[T] {
	return &RoundRobin[T]{namespace: namespace, lines: map[string]*line[T]{}, urgent: map[T]bool{}}
}

// MarkUrgent makes an item urgent until it is taken. The item has to be added to the work queue
// afterwards.
func (o *RoundRobin[T]) MarkUrgent(item T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.urgent[item] = true
}

func (o *RoundRobin[T]) isUrgent(item T) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.urgent[item]
}

// Push implements workqueue.Queue.
func (o *RoundRobin[T]) Push(item T) {
	of := o.namespace(item)
	l := o.lines[of]
	if l == nil {
		l = &line[T]{pending: map[T]bool{}}
		o.lines[of], o.turns = l, append(o.turns, of)
	}
	o.size++
	l.put(item, o.isUrgent(item))
}

// Touch implements workqueue.Queue: an item that is added again keeps its place, unless it has
// become urgent.
func (o *RoundRobin[T]) Touch(item T) {
	l := o.lines[o.namespace(item)]
	if l == nil {
		return
	}
	if first, waits := l.pending[item]; waits && !first && o.isUrgent(item) {
		l.put(item, true)
	}
}

// Len implements workqueue.Queue.
func (o *RoundRobin[T]) Len() int { return o.size }

// Pop implements workqueue.Queue. It is called where there is an item.
func (o *RoundRobin[T]) Pop() T {
	of := o.turns[0]
	o.turns = o.turns[1:]
	l := o.lines[of]
	item := l.take()
	o.size--
	if len(l.pending) == 0 {
		delete(o.lines, of)
	} else {
		o.turns = append(o.turns, of)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.urgent, item)
	return item
}

func (l *line[T]) put(item T, urgent bool) {
	l.pending[item] = urgent
	if urgent {
		l.first = append(l.first, item)
	} else {
		l.rest = append(l.rest, item)
	}
}

// take takes the next item, of which there is one.
func (l *line[T]) take() T {
	for {
		of := &l.first
		if len(l.first) == 0 {
			of = &l.rest
		}
		item := (*of)[0]
		*of = (*of)[1:]
		if _, waits := l.pending[item]; waits {
			delete(l.pending, item)
			return item
		}
	}
}
