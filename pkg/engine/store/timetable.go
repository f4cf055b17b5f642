package store

import (
	"math"

	"github.com/flux-k8s/fluence/pkg/planner"
)

// A timetable has slots by time, and finds the times in order.
type timetable struct {
	// times is the ordered set of the times: a plan whose amounts are all 0.
	times planner.Plan
	slots map[int64]map[*Slot]struct{}
}

func newTimetable() timetable {
	return timetable{slots: make(map[int64]map[*Slot]struct{})}
}

// add enters a slot at a time. It skips planner.Forever, which is no time.
func (t *timetable) add(at int64, s *Slot) {
	if at == planner.Forever {
		return
	}
	if t.slots[at] == nil {
		t.slots[at] = make(map[*Slot]struct{})
		t.times.Add(at, planner.Forever, 0)
	}
	t.slots[at][s] = struct{}{}
}

// remove removes a slot from its time.
func (t *timetable) remove(at int64, s *Slot) {
	if at == planner.Forever {
		return
	}
	delete(t.slots[at], s)
	if len(t.slots[at]) == 0 {
		delete(t.slots, at)
		t.times.Remove(at, planner.Forever, 0)
	}
}

// within calls do with each slot whose time is after first and at most last.
func (t *timetable) within(first, last int64, do func(*Slot)) {
	for at, ok := t.times.Next(first); ok && at <= last; at, ok = t.times.Next(at) {
		for s := range t.slots[at] {
			do(s)
		}
	}
}

// upTo calls do with each slot whose time is at most last.
func (t *timetable) upTo(last int64, do func(*Slot)) {
	for s := range t.slots[math.MinInt64] {
		do(s)
	}
	t.within(math.MinInt64, last, do)
}

// hasUpTo reports whether there is a slot whose time is at most last.
func (t *timetable) hasUpTo(last int64) bool {
	at, ok := t.times.Next(math.MinInt64)
	return ok && at <= last || len(t.slots[math.MinInt64]) > 0
}
