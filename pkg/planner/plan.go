// Package planner keeps the availability of an amount over time: what is booked
// of it from when to when, and when so much of it is free for so long.
//
// Times are whole numbers in whatever unit and from whatever origin the caller
// counts; the package has no clock. Nothing in it is safe for concurrent use.
package planner

import "math"

// Forever is the time after all others: the end of what has no known end. It is
// no event.
const Forever = math.MaxInt64

// A Plan is what is booked of one amount. The zero value has nothing booked, and
// a Plan without bookings holds no memory beside itself. It must not be copied
// once something is booked. The sum of all that is booked at any one time has to
// stay within an int64.
type Plan struct {
	// single is the only booking while root is nil; without an end it is none. Most
	// plans have no more than one, which so takes no memory of its own.
	single booking
	root   *node
}

// A booking is an amount that is booked over [start, end).
type booking struct{ start, end, amount int64 }

func (s *booking) none() bool { return s.end <= s.start }

// peak returns what the span takes at the most of [start, end).
func (s *booking) peak(start, end int64) int64 {
	if s.start < end && start < s.end {
		return s.amount
	}
	return 0
}

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

// earliest returns the first time, from or after the span, from which on no more
// than limit is taken for the duration.
func (s *booking) earliest(from, duration, limit int64) (int64, bool) {
	switch {
	case s.peak(from, later(from, duration)) <= limit:
		return from, true
	case s.end < Forever:
		return s.end, true
	}
	return 0, false
}

// Add books amount, which is 0 or more, over [start, end). End has to be after
// start and may be Forever.
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

func (p *Plan) grow(s booking) {
	p.mark(s.start, s.amount, 1)
	if s.end < Forever {
		p.mark(s.end, -s.amount, 1)
	}
}

// Remove takes back what Add booked with the same arguments; in which order does
// not matter. It panics where no span begins or ends as the one to be removed.
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

// mark puts the edges of spans on a time, or with a negative number takes them
// off.
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

// Empty says whether nothing is booked.
func (p *Plan) Empty() bool { return p.root == nil && p.single.none() }

// At returns what is booked at t.
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

// Peak returns the most that is booked at any time of [start, end).
func (p *Plan) Peak(start, end int64) int64 {
	if p.root == nil {
		return p.single.peak(start, end)
	}
	_, peak := p.root.peak(start, end, Forever, 0, 0)
	return peak
}

// Next returns the first time after the given one at which a span begins or ends,
// also where the sum stays the same. It is false where there is none.
func (p *Plan) Next(after int64) (int64, bool) {
	if p.root == nil {
		return p.single.next(after)
	}
	return p.root.next(after)
}

// Earliest returns the first time, from or an event after it, from which on
// amount is free of total for the duration, which is more than 0 and may be
// Forever. It is false where there is none.
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

// later returns the time a duration after t, Forever where that is past it.
func later(t, duration int64) int64 {
	if t > 0 && duration > Forever-t {
		return Forever
	}
	return t + duration
}
