package gang

import (
	"container/heap"
	"time"
)

// sooner returns the earlier of two times. Zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// A retryQueue is a heap of the groups that retry at a known time. The soonest is the first.
type retryQueue []*groupState

// put sets when a group retries. Zero means never, and removes the group.
func (q *retryQueue) put(s *groupState, at time.Time) {
	was := s.retryAt
	s.retryAt = at
	switch {
	case was.IsZero() && at.IsZero():
	case was.IsZero():
		heap.Push(q, s)
	case at.IsZero():
		heap.Remove(q, s.index)
	case !was.Equal(at):
		heap.Fix(q, s.index)
	}
}

// next returns when the first group retries. Zero means never.
func (q retryQueue) next() time.Time {
	if len(q) == 0 {
		return time.Time{}
	}
	return q[0].retryAt
}

// due returns the groups whose time has come. It looks
// only at these groups and at their children in the heap.
func (q retryQueue) due(now time.Time) []*groupState {
	var come []*groupState
	for below := []int{0}; len(below) > 0; {
		i := below[len(below)-1]
		if below = below[:len(below)-1]; i < len(q) && !now.Before(q[i].retryAt) {
			come, below = append(come, q[i]), append(below, 2*i+1, 2*i+2)
		}
	}
	return come
}

// Len, Less and Swap are for package heap.
func (q retryQueue) Len() int { return len(q) }

func (q retryQueue) Less(i, j int) bool { return q[i].retryAt.Before(q[j].retryAt) }

func (q retryQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is for package heap. To add a group, call put.
func (q *retryQueue) Push(s any) {
	of := s.(*groupState)
	of.index = len(*q)
	*q = append(*q, of)
}

// Pop is for package heap. To remove a group, call put.
func (q *retryQueue) Pop() any {
	last := len(*q) - 1
	of := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	return of
}
