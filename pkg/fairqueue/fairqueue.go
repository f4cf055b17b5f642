// Package fairqueue is a work queue in which namespaces take turns: however much there is to do
// for one of them, each of the others waits for one item of it at the most.
package fairqueue

import "k8s.io/client-go/util/workqueue"

// New returns a work queue with that name in metrics. It is client-go's but for the order: the next
// item is that of the namespace which waits longest for its turn, and within a namespace the
// oldest. The namespace of an item never changes.
func New[T comparable](name string, limiter workqueue.TypedRateLimiter[T], namespace func(T) string) workqueue.TypedRateLimitingInterface[T] {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: newOrder(namespace)})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{
		Name:          name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Name: name, Queue: queue}),
	})
}

// An order is a workqueue.Queue. The work queue calls it under its own lock, and pops no item
// where there is none.
type order[T comparable] struct {
	namespace func(T) string
	items     map[string][]T
	// turns are the namespaces of which there are items, in the order of their turns.
	turns []string
	size  int
}

func newOrder[T comparable](namespace func(T) string) *order[T] {
	return &order[T]{namespace: namespace, items: map[string][]T{}}
}

// Touch implements workqueue.Queue: an item that is added again keeps its place.
func (o *order[T]) Touch(T) {}

// Push implements workqueue.Queue.
func (o *order[T]) Push(item T) {
	of := o.namespace(item)
	if len(o.items[of]) == 0 {
		o.turns = append(o.turns, of)
	}
	o.items[of] = append(o.items[of], item)
	o.size++
}

// Len implements workqueue.Queue.
func (o *order[T]) Len() int { return o.size }

// Pop implements workqueue.Queue.
func (o *order[T]) Pop() T {
	of := o.turns[0]
	item := o.items[of][0]
	o.turns, o.items[of], o.size = o.turns[1:], o.items[of][1:], o.size-1
	if len(o.items[of]) > 0 {
		o.turns = append(o.turns, of)
	} else {
		delete(o.items, of)
	}
	return item
}
