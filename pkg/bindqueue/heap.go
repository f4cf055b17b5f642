package bindqueue

import "container/heap"

// indexedHeap is a binary heap whose elements know their positions, so that each can
// be removed or moved.
type indexedHeap[T any] struct {
	items  []T
	before func(a, b T) bool
	// index returns the place where an element keeps its position.
	index func(T) *int
}

func (h *indexedHeap[T]) add(x T)    { heap.Push(h, x) }
func (h *indexedHeap[T]) remove(x T) { heap.Remove(h, *h.index(x)) }

// changed restores the order after an element has changed.
func (h *indexedHeap[T]) changed(x T) { heap.Fix(h, *h.index(x)) }

// first returns the first element. The heap must not be empty.
func (h *indexedHeap[T]) first() T { return h.items[0] }

// Len implements heap.Interface.
func (h *indexedHeap[T]) Len() int { return len(h.items) }

// Less implements heap.Interface.
func (h *indexedHeap[T]) Less(i, j int) bool { return h.before(h.items[i], h.items[j]) }

// Swap implements heap.Interface.
func (h *indexedHeap[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.index(h.items[i]), *h.index(h.items[j]) = i, j
}

// Push implements heap.Interface.
func (h *indexedHeap[T]) Push(x any) {
	item := x.(T)
	*h.index(item) = len(h.items)
	h.items = append(h.items, item)
}

// Pop implements heap.Interface.
func (h *indexedHeap[T]) Pop() any {
	var none T
	last := len(h.items) - 1
	item := h.items[last]
	h.items[last] = none
	h.items = h.items[:last]
	return item
}
