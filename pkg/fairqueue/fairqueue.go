// Package fairqueue is a work queue that serves namespaces round robin: each namespace gives
// one item in its turn. A namespace with many items therefore does not delay the others.
package fairqueue

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// New returns a rate-limited work queue that takes its items in the order of
// NewRoundRobin. name is its name in metrics. Without a name it has no metrics.
func New[T comparable](name string, limiter workqueue.TypedRateLimiter[T], namespace func(T) string) workqueue.TypedRateLimitingInterface[T] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{
		Name:          name,
		DelayingQueue: NewDelayingQueue(name, NewRoundRobin(namespace)),
	})
}

// NewDelayingQueue returns a delaying work queue without a rate limit. It takes
// its items in the given order.
func NewDelayingQueue[T comparable](name string, order *RoundRobin[T]) workqueue.TypedDelayingInterface[T] {
	return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{
		Name:  name,
		Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: order}),
	})
}

// RoundRobin is the order of a work queue: it chooses the next item. The next
// item is of the namespace that has waited longest. Within a namespace, urgent
// items go before the others, and older items before newer ones. A work queue
// calls its RoundRobin under its own lock. MarkUrgent may be called at any time.
type RoundRobin[T comparable] struct {
	namespace func(T) string
	// lines holds the items by namespace.
	lines map[string]*line[T]
	// turns lists the namespaces that have an item, the next one first.
	turns []string
	// size counts the items.
	size int

	// mu guards urgent.
	mu     sync.Mutex
	urgent map[T]bool
}

// A line holds the items of one namespace. An item that becomes urgent while
// it waits is in both lists. take returns it once and skips the other copy.
type line[T comparable] struct {
	// first lists the urgent items. rest lists the others.
	first, rest []T
	// pending has an entry for each item that was not taken yet. True means
	// that the item is in first.
	pending map[T]bool
}

// NewRoundRobin returns an order without items. namespace returns the
// namespace of an item, which must never change.
func NewRoundRobin[T comparable](namespace func(T) string) *RoundRobin[T] {
	return &RoundRobin[T]{namespace: namespace, lines: map[string]*line[T]{}, urgent: map[T]bool{}}
}

// MarkUrgent makes an item urgent until it is taken. The caller must add
// the item to the work queue afterwards.
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

// Touch implements workqueue.Queue. An item that is added again keeps its
// place, unless it has become urgent.
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

// Pop implements workqueue.Queue. It must not be called on an empty queue.
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

// take removes and returns the next item. There must be one.
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
