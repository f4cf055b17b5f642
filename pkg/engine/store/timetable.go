package store

import (
	"math"

	"github.com/flux-k8s/fluence/pkg/planner"
)

// A timetable has slots by time, and finds the times in order.
type timetable struct {
	// times is the ordered set of the times: a plan whose amounts are all 0.
	times planner.Plan
	slots map[int64]slotsAt
}

// slotsAt are the slots at one time. There is usually one, and only the others need a map.
type slotsAt struct {
	one    *Slot
	others map[*Slot]struct{}
}

func newTimetable() timetable {
	return timetable{slots: make(map[int64]slotsAt)}
}

// add enters a slot at a time. It skips planner.Forever, which is no time.
func (t *timetable) add(at int64, s *Slot) {
	if at == planner.Forever {
		return
	}
	x, ok := t.slots[at]
	if !ok {
		t.times.Add(at, planner.Forever, 0)
	}
	switch {
	case x.one == nil:
		x.one = s
	case x.others == nil:
		x.others = map[*Slot]struct{}{s: {}}
	default:
		x.others[s] = struct{}{}
	}
	t.slots[at] = x
}

// remove removes a slot from its time.
func (t *timetable) remove(at int64, s *Slot) {
	if at == planner.Forever {
		return
	}
	x := t.slots[at]
	if x.one == s {
		x.one = nil
	} else {
		delete(x.others, s)
	}
	if x.one == nil && len(x.others) == 0 {
		delete(t.slots, at)
		t.times.Remove(at, planner.Forever, 0)
		return
	}
	t.slots[at] = x
}

// each calls do with each slot at a time.
func (t *timetable) each(at int64, do func(*Slot)) {
	x := t.slots[at]
	if x.one != nil {
		do(x.one)
	}
	for s := range x.others {
		do(s)
	}
}

// within calls do with each slot whose time is after first and at most last.
func (t *timetable) within(first, last int64, do func(*Slot)) {
	for at, ok := t.times.Next(first); ok && at <= last; at, ok = t.times.Next(at) {
		t.each(at, do)
	}
}

// upTo calls do with each slot whose time is at most last.
func (t *timetable) upTo(last int64, do func(*Slot)) {
	t.each(math.MinInt64, do)
	t.within(math.MinInt64, last, do)
}

// hasUpTo reports whether there is a slot whose time is at most last.
func (t *timetable) hasUpTo(last int64) bool {
	at, ok := t.times.Next(math.MinInt64)
	_, first := t.slots[math.MinInt64]
	return first || ok && at <= last
}
