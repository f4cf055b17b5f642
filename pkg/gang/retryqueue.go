package gang

import (
	"container/heap"
	"time"
)

// sooner returns the earlier of two times, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// A retryQueue has the groups that ask again by themselves, as a heap: the soonest is the first.
type retryQueue []*groupState

// put has a group ask again at a time; zero is never.
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

// next is when the first group asks again; zero is never.
func (q retryQueue) next() time.Time {
	if len(q) == 0 {
		return time.Time{}
	}
	return q[0].retryAt
}

// due returns the groups whose time has come. It looks at no more than these and those right below
// them in the heap.
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

// Len and the following are heap's.
func (q retryQueue) Len() int { return len(q) }

func (q retryQueue) Less(i, j int) bool { return q[i].retryAt.Before(q[j].retryAt) }

func (q retryQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is heap's; put is what adds a group.
func (q *retryQueue) Push(s any) {
	of := s.(*groupState)
	of.index = len(*q)
	*q = append(*q, of)
}

// Pop is heap's; put is what takes a group away.
func (q *retryQueue) Pop() any {
	last := len(*q) - 1
	of := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	return of
}
