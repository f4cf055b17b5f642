// Package planner records how much of an amount is booked over time. It answers how
// much is booked at a time, and when some of the amount is free for a duration.
//
// Times are whole numbers. The caller chooses their unit and their origin.
// The package has no clock. Nothing in it is safe for concurrent use.
package planner

import "math"

// Forever is the time after all others. It is the end of a booking that has no known
// end, and it is not an event. An event is a time at which a booking begins or ends.
const Forever = math.MaxInt64

// A Plan has the bookings of one amount. The zero value has nothing booked, and a Plan
// without bookings has no memory besides the struct. A Plan must not be copied once something
// is booked. Invariant: the sum of what is booked at any one time fits in an int64.
type Plan struct {
	// single is the only booking while root is nil. If its end is not after its start, there
	// is no booking. Most plans have at most one booking, so most plans need no other memory.
	single booking
	// root is the tree of all bookings, if there were ever two at once since the plan was empty.
	root *node
}

// A booking is an amount that is booked over [start, end).
type booking struct{ start, end, amount int64 }

// none reports whether this is no booking.
func (s *booking) none() bool { return s.end <= s.start }

// peak returns the largest amount that the booking takes at any time of [start, end).
func (s *booking) peak(start, end int64) int64 {
	if s.start < end && start < s.end {
		return s.amount
	}
	return 0
}

// next returns the first event after the given time. It returns false if there is none.
func (s *booking) next(after int64) (int64, bool) {
	switch {
	case s.none():
	case s.start > after:
		return s.start, true
	case s.end > after && s.end < Forever:
		return s.end, true
	}
	return 0, false
}

// earliest returns the first time, from or the end of the booking, from which the
// booking takes at most limit for the duration. It returns false if there is none.
func (s *booking) earliest(from, duration, limit int64) (int64, bool) {
	switch {
	case s.peak(from, later(from, duration)) <= limit:
		return from, true
	case s.end < Forever:
		return s.end, true
	}
	return 0, false
}

// Add books an amount over [start, end). The amount must not be
// negative. The end must be after the start, and may be Forever.
func (p *Plan) Add(start, end, amount int64) {
	if p.root == nil {
		if p.single.none() {
			p.single = booking{start, end, amount}
			return
		}
		p.grow(p.single)
		p.single = booking{}
	}
	p.grow(booking{start, end, amount})
}

// grow adds a booking to the tree.
func (p *Plan) grow(s booking) {
	p.mark(s.start, s.amount, 1)
	if s.end < Forever {
		p.mark(s.end, -s.amount, 1)
	}
}

// Remove takes back what Add booked with the same arguments. The order of calls
// does not matter. It panics if no booking begins or ends at one of these times,
// or if the last one there had another amount. Other mistakes may go unnoticed.
func (p *Plan) Remove(start, end, amount int64) {
	if p.root == nil {
		if p.single != (booking{start, end, amount}) {
			panic("planner: what is removed was not booked")
		}
		p.single = booking{}
		return
	}
	p.mark(start, -amount, -1)
	if end < Forever {
		p.mark(end, amount, -1)
	}
}

// mark adds a change of the sum, and this number of edges, at a time. An edge
// is the begin or the end of a booking. A negative number takes edges off.
func (p *Plan) mark(at, change int64, edges int) {
	if p.root == nil {
		p.root = &node{}
	}
	if right := p.root.mark(at, change, edges); right != nil {
		p.root = &node{parts: []part{partOf(p.root), partOf(right)}}
	}
	for len(p.root.parts) == 1 {
		p.root = p.root.parts[0].node
	}
	if p.root.size() == 0 {
		p.root = nil
	}
}

// Empty reports whether nothing is booked.
func (p *Plan) Empty() bool { return p.root == nil && p.single.none() }

// At returns the amount that is booked at t.
func (p *Plan) At(t int64) int64 {
	if p.root == nil {
		return p.single.peak(t, later(t, 1))
	}
	sum := int64(0)
	for n := p.root; n != nil; {
		sum, n = n.upTo(t, sum)
	}
	return sum
}

// Peak returns the largest amount that is booked at any time of [start, end).
func (p *Plan) Peak(start, end int64) int64 {
	if p.root == nil {
		return p.single.peak(start, end)
	}
	_, peak := p.root.peak(start, end, Forever, 0, 0)
	return peak
}

// Next returns the first event after the given time, even if the
// sum stays the same there. It returns false if there is none.
func (p *Plan) Next(after int64) (int64, bool) {
	if p.root == nil {
		return p.single.next(after)
	}
	return p.root.next(after)
}

// Earliest returns the first time from which amount is free for the duration, if the
// plan has total in all. The time is from or an event after it. The duration must be
// more than 0, and may be Forever. Earliest returns false if there is no such time.
func (p *Plan) Earliest(from, duration, amount, total int64) (int64, bool) {
	if amount > total {
		return 0, false
	}
	c := crossing{limit: total - amount}
	if p.root == nil {
		return p.single.earliest(from, duration, c.limit)
	}
	for t := from; ; {
		over, ok := t, true
		if p.At(t) <= c.limit {
			over, ok = c.find(p.root, t, true)
		}
		if !ok || over >= later(t, duration) {
			return t, true
		}
		if t, ok = c.find(p.root, over, false); !ok {
			return 0, false
		}
	}
}

// later returns the time a duration after t. It returns Forever if that is past Forever.
func later(t, duration int64) int64 {
	if t > 0 && duration > Forever-t {
		return Forever
	}
	return t + duration
}
