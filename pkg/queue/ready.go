package queue

import "container/heap"

// ready has the lanes that may have a job to ask, by the order of their first ones.
type ready []*lane

// Len, Less, Swap, Push and Pop are those of heap.Interface.
func (r ready) Len() int { return len(r) }

// Less reports whether the first job of lane a is before the one of lane b.
func (r ready) Less(a, b int) bool { return r[a].next.before(r[b].next) }

// Swap exchanges two lanes.
func (r ready) Swap(a, b int) {
	r[a], r[b] = r[b], r[a]
	r[a].index, r[b].index = a, b
}

// Push adds a lane at the end.
func (r *ready) Push(x any) {
	l := x.(*lane)
	l.index = len(*r)
	*r = append(*r, l)
}

// Pop takes the lane at the end.
func (r *ready) Pop() any {
	last := len(*r) - 1
	l := (*r)[last]
	(*r)[last], l.index, l.next = nil, -1, nil
	*r = (*r)[:last]
	return l
}

// wake adds a lane, if a job of it may ask now.
func (r *ready) wake(l *lane) {
	j := l.candidate()
	switch {
	case j == nil:
	case l.index < 0:
		l.next = j
		heap.Push(r, l)
	case j.before(l.next):
		l.next = j
		heap.Fix(r, l.index)
	}
}

// leave takes out a lane.
func (r *ready) leave(l *lane) {
	if l.index >= 0 {
		heap.Remove(r, l.index)
	}
}

// pick returns the job that asks next, or nil if none does. Its lane stays.
func (r *ready) pick() *job {
	for len(*r) > 0 {
		l := (*r)[0]
		j := l.candidate()
		switch j {
		case nil:
			heap.Pop(r)
		case l.next:
			return j
		default:
			l.next = j
			heap.Fix(r, 0)
		}
	}
	return nil
}
